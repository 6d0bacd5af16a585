"""One member's life in each client: what ``python -m tests.support.member`` runs, and what all of them share."""
