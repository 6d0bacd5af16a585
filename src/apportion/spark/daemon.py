"""PySpark's daemon with all that our tasks import in memory: each worker is a fork of it, and begins to work at once.

A worker that finds its libraries by itself spends more than half a second of CPU on that, and a build starts several;
what the daemon has read, all of them share. ``spark.python.daemon.module`` names it, in a session of our own only.
"""

from __future__ import annotations

import signal

if __name__ == "__main__":
    # First of all: PySpark's daemon leaves the terminal's process group only once everything is imported, and Ctrl-C
    # on the way would end it with a traceback. Each worker takes the signal again, in a group of its own.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

import gc
import sys
from contextlib import suppress

from apportion.spark.worker_path import without_archives

if __name__ == "__main__":
    before, sys.path[:] = set(sys.path), without_archives(sys.path)
    for entry in before.difference(sys.path):
        sys.path_importer_cache.pop(entry, None)  # each worker would read its list of files again

import pyarrow as pa
import pyarrow.parquet
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import apportion.spark.decode
import apportion.spark.gold
import apportion.spark.local_silver  # noqa: F401

with suppress(ImportError):  # Arrow looks for it as soon as it is given a list
    import pandas  # noqa: F401

if __name__ == "__main__":
    pa.set_memory_pool(pa.system_memory_pool())  # it uses what NumPy gave back: see ``job``
    gc.collect()
    gc.freeze()  # what is here stays: no worker looks through it again, nor writes to its pages
    manager()
