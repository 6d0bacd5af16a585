"""A cluster's memory as tables: `__consumer_offsets` in, owners and lags out; needs PySpark."""
