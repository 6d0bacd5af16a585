"""One active consumer, the others stand by."""
