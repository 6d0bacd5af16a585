"""A group's memory: its records in the order of their offsets, made into generations, rebalances, replays, what-ifs.

All of it is plain Python on the records of one group, so that the command line answers from a dump without Spark
and Spark runs the same code, one group at a time, in its Arrow batches.
"""
