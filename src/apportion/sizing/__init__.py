"""How many members a group needs, how much a change moves: a frontier, a bound, and a choice with its reason."""
