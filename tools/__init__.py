"""Programs that make what the package ships: the recorded dump of the demo."""
