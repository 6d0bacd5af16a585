"""How many members a group needs, what a change moves: a frontier, a bound, and a choice with its reason."""
