"""The place that a build writes to: plain files of a folder, or Delta or a catalog; each knows how rows are published.

Both have the same methods. ``names``, ``read`` and ``text`` give what the last whole build left, for what one before
left half done is put right first. Tasks hand rows over as ``deliver`` says; ``write`` completes a table of them in one
commit; ``keep`` puts a small text beside the tables; ``begin_again`` forgets what was not published; ``publish`` lets
everybody see all of it, and comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from apportion.spark import folder, lake, session
from apportion.spark.folder import FolderStore
from apportion.spark.lake import LakeStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from apportion.spark.location import Location

TableStore = FolderStore | LakeStore


@contextmanager
def alone(spark: SparkSession, location: Location, form: str, progress: Callable[[str], None]) -> Iterator[TableStore]:
    """The tables of a place, for one build, which is alone with them.

    Raises
        Unavailable: another build is at work there. BadInput: a folder of this machine that a cluster does not see.
    """
    if location.kind != "folder" or form != "parquet":
        with lake.alone(spark, location, form, progress) as store:
            yield store
        return
    with folder.staged(location.folder, progress) as (staging, held):
        if session.is_remote(spark):
            folder.check_shared(staging, spark)
        yield FolderStore(location.folder, staging, held, spark)
