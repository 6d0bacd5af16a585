"""What everything is about: a group in, a plan out, and the way between names and numbers."""
