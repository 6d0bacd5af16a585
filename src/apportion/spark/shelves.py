"""Small texts that are made only if absent, where tables are: an object store, a file system of Hadoop's, a catalog.

An object store is reached by this process itself where it can be (``ObjectShelf``), else by Spark's driver for it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from apportion.errors import Unavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore
    from pyspark.sql import SparkSession

_CONDITIONAL: Final = "fs.option.create.conditional.overwrite"
_PROPERTY: Final = "apportion.lock"


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a Spark Connect client, which has no JVM of its own."""
    return "connect" in type(spark).__module__


class Files(Protocol):
    """Files below a root, by names with slashes."""

    def listed(self, name: str) -> dict[str, int] | None:
        """Files and folders right below one, and their bytes; None where it is none."""

    def copy(self, name: str, target: Path) -> bool:
        """Copy a file to a local one; whether it is there."""

    def read(self, name: str) -> str | None:
        """The text of a file; None where it is not there."""


class ObjectShelf:
    """Texts and files as objects of a store that this process reaches by itself.

    "Only if absent" is a condition of the put.
    """

    def __init__(self, store: ObjectStore, prefix: str = "") -> None:
        self._store, self._prefix = store, prefix

    def names(self) -> list[str]:
        """All that are there."""
        return list(self._listed(self._prefix))

    def listed(self, name: str) -> dict[str, int] | None:
        """Files and folders right below one, and their bytes; a file itself; None where it is neither."""
        import obstore

        there = self._listed(self._path(name))
        if not there:
            try:
                there = {name.rpartition("/")[2]: obstore.head(self._store, self._path(name))["size"]}
            except FileNotFoundError:
                return None
        return there

    def copy(self, name: str, target: Path) -> bool:
        """Copy a file to a local one, some megabytes at a time; whether it is there."""
        import obstore

        try:
            pieces = obstore.get(self._store, self._path(name))
        except FileNotFoundError as error:
            _check_bucket(error)
            return False
        with target.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        return True

    def create(self, name: str, text: str) -> bool:
        """Make it, unless it is there: then False."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            obstore.put(self._store, self._path(name), text.encode(), mode="create")
        except AlreadyExistsError:
            # Also what a second try says of the first one, which came through though its answer was lost.
            return self.read(name) == text
        return True

    def read(self, name: str) -> str | None:
        """None where it is not there."""
        import obstore

        try:
            return bytes(obstore.get(self._store, self._path(name)).bytes()).decode()
        except FileNotFoundError as error:
            _check_bucket(error)
            return None

    def overwrite(self, name: str, text: str) -> None:
        """Write it anew."""
        import obstore

        obstore.put(self._store, self._path(name), text.encode())

    def delete(self, name: str) -> None:
        """Take it away, if it is there."""
        import obstore

        with suppress(FileNotFoundError):
            obstore.delete(self._store, self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _listed(self, path: str) -> dict[str, int]:
        import obstore

        below = obstore.list_with_delimiter(self._store, path or None)
        sizes = {one["path"].rpartition("/")[2]: one["size"] for one in below["objects"]}
        return sizes | {one.rpartition("/")[2]: 0 for one in below["common_prefixes"]}


class HadoopShelf:
    """Texts as objects below a URI, through the driver that Spark has for it.

    "Only if absent" is the store's own promise: a conditional put on S3, ABFS and GCS, the name node's word on HDFS.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        if is_connect(spark):
            why = "a Spark Connect session cannot make an object only if it is absent, so no build could be kept out"
            raise Unavailable(f"{root}: {why}; take catalog.schema, or a session that is no Connect client")
        self._root = root
        self._jvm: Any = spark.sparkContext._jvm
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = self._path().getFileSystem(configuration)

    def names(self) -> list[str]:
        """All that are there."""
        return list(self.listed() or ())

    def listed(self, *names: str) -> dict[str, int] | None:
        """Files and folders right below one, and their bytes; a file itself; None where it is neither."""
        try:
            there = self._files.listStatus(self._path(*names))
        except Exception as error:
            if _is(error, "FileNotFoundException"):
                return None
            raise
        return {status.getPath().getName(): int(status.getLen()) for status in there}

    def copy(self, name: str, target: Path) -> bool:
        """Copy a file to a local one; whether it is there."""
        local = self._jvm.org.apache.hadoop.fs.Path(f"file://{target.absolute()}")  # nothing is escaped in it
        try:
            self._files.copyToLocalFile(False, self._path(name), local, True)
        except Exception as error:
            if _is(error, "FileNotFoundException"):
                return False
            raise
        return True

    def create(self, name: str, text: str) -> bool:
        """Make it, unless it is there: then False."""
        try:
            if self._root.startswith("s3a:"):
                builder = self._files.createFile(self._path(name)).recursive()
                out = builder.overwrite(False).must(_CONDITIONAL, "true").build()
            else:
                out = self._files.create(self._path(name), False)
            self._fill(out, text)
        except Exception:
            # Also what a second try says of the first one, which came through though its answer was lost.
            there = self.read(name)
            if there is None:
                raise
            return there == text
        return True

    def read(self, name: str) -> str | None:
        """None where it is not there."""
        try:
            stream = self._files.open(self._path(name))
        except Exception as error:
            if _is(error, "FileNotFoundException"):
                return None
            raise
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text

    def overwrite(self, name: str, text: str) -> None:
        """Write it anew."""
        self._fill(self._files.create(self._path(name), True), text)

    def delete(self, name: str) -> None:
        """Take it away, if it is there."""
        self._files.delete(self._path(name), False)

    def clear(self) -> None:
        """Take away the root, with all that is below it."""
        self._files.delete(self._path(), True)

    def _path(self, *names: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path("/".join((self._root, *names)))

    @staticmethod
    def _fill(out: Any, text: str) -> None:
        try:
            out.write(bytearray(text.encode()))
        finally:
            out.close()


class CatalogShelf:
    """Texts as properties of empty tables of a schema: no catalog makes a table that is there."""

    def __init__(self, spark: SparkSession, schema: str, prefix: str, using: str) -> None:
        self._spark, self._prefix = spark, prefix
        self._schema = ".".join(f"`{part}`" for part in schema.split("."))
        self._using = f"USING {using}" if using else ""

    def names(self) -> list[str]:
        """All that are there."""
        rows = self._spark.sql(f"SHOW TABLES IN {self._schema} LIKE '{self._prefix}*'").collect()
        return [row["tableName"].removeprefix(f"{self._prefix}_").replace("__", ".") for row in rows]

    def create(self, name: str, text: str) -> bool:
        """Make it, unless it is there: then False."""
        try:
            self._spark.sql(
                f"CREATE TABLE {self._table(name)} (nothing int) {self._using} "
                f"TBLPROPERTIES ('{_PROPERTY}' = {_literal(text)})"
            )
        except Exception:
            there = self.read(name)
            if there is None:
                raise
            return there == text
        return True

    def read(self, name: str) -> str | None:
        """None where it is not there."""
        if name not in self.names():
            return None
        rows = self._spark.sql(f"SHOW TBLPROPERTIES {self._table(name)}").collect()
        return next((str(row["value"]) for row in rows if row["key"] == _PROPERTY), "")

    def overwrite(self, name: str, text: str) -> None:
        """Write it anew."""
        self._spark.sql(f"ALTER TABLE {self._table(name)} SET TBLPROPERTIES ('{_PROPERTY}' = {_literal(text)})")

    def delete(self, name: str) -> None:
        """Take it away, if it is there."""
        with suppress(Exception):  # it is no lock any more, whether it goes or not
            self._spark.sql(f"DROP TABLE IF EXISTS {self._table(name)}")

    def _table(self, name: str) -> str:
        # A name has one point at most, and none of the underlines that stand for it.
        return f"{self._schema}.`{self._prefix}_{name.replace('.', '__')}`"


def _check_bucket(error: FileNotFoundError) -> None:
    """What is missing is the object: raises where it is the bucket."""
    if "NoSuchBucket" in str(error):
        raise error


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _is(error: Exception, name: str) -> bool:
    java = getattr(error, "java_exception", None)
    return name in (java.getClass().getName() if java is not None else str(error))
