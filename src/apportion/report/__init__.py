"""A result as something to look at: text for a terminal, or one page with pictures."""
