"""Applications that run on a broker of their own, one command each."""
