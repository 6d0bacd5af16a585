"""Results as text for a terminal, or as one page with pictures."""
