"""The arithmetic of assignment: arrays in, new arrays out; no names, no I/O, no clock, ties by index."""
