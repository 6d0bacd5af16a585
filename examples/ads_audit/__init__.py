"""A PySpark job that recomputes the join and finds what the live one lost."""
