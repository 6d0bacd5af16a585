"""How far behind a group is: the rule, and where offsets come from."""
