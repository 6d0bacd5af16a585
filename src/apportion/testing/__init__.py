"""What the author of a strategy or a client needs for tests: promises to check, a real broker, Java peers."""
