"""The server: its collector, its answers, its manners towards whoever asks."""
