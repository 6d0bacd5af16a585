"""One member's life in each client: what ``python -m apportion.testing.member`` runs, and what all of them share."""
