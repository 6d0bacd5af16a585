"""The memory of a cluster as tables: `__consumer_offsets` in, who owned what and how far behind out; needs PySpark."""
