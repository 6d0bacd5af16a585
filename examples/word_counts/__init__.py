"""Counting words with state that survives kill -9."""
