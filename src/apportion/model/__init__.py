"""The core of everything: a group in, a plan out, and the way between names and numbers."""
