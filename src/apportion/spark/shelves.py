"""Small texts that are made only if absent, where tables are: in a folder, below a URI by Spark's driver, in a catalog.

All have the same methods. Of many that ``create`` a name at once exactly one makes it; only that one may overwrite it.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apportion.errors import Unavailable
from apportion.spark.files import drafted
from apportion.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONDITIONAL: Final = "fs.option.create.conditional.overwrite"
_PROPERTY: Final = "apportion.lock"


class FolderShelf:
    """Texts as files of a local folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """All that are there."""
        with suppress(FileNotFoundError):
            return [file.name for file in self.folder.iterdir() if not file.name.startswith(".")]
        return []

    def create(self, name: str, text: str) -> bool:
        """The file appears with its text, or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{name}.{os.getpid()}.{threading.get_ident()}"
        try:
            draft.write_text(text)
            os.link(draft, self.folder / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def read(self, name: str) -> str | None:
        """None where it is not there."""
        with suppress(FileNotFoundError):
            return (self.folder / name).read_text()
        return None

    def overwrite(self, name: str, text: str) -> None:
        """In one step."""
        with drafted(self.folder / name) as draft:
            draft.write_text(text)

    def delete(self, name: str) -> None:
        """Take it away, if it is there."""
        (self.folder / name).unlink(missing_ok=True)


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
        try:
            return [status.getPath().getName() for status in self._files.listStatus(self._path())]
        except Exception as error:
            if _is(error, "FileNotFoundException"):
                return []
            raise

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
            stored = self.read(name)
            if stored is None:
                raise
            return stored == text
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
        """Write it again."""
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
    """Texts as properties of empty tables of a schema: no catalog makes a table that is there.

    In hexadecimal: Spark blots out a property in which it finds a word such as "token", and its owner would be unknown.
    """

    def __init__(self, spark: SparkSession, schema: str, prefix: str, using: str) -> None:
        self._spark, self._prefix = spark, prefix
        self._schema = quoted(*schema.split("."))
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
                f"TBLPROPERTIES ('{_PROPERTY}' = '{text.encode().hex()}')"
            )
        except Exception:
            stored = self.read(name)
            if stored is None:
                raise
            return stored == text
        return True

    def read(self, name: str) -> str | None:
        """None where it is not there."""
        if name not in self.names():
            return None
        rows = self._spark.sql(f"SHOW TBLPROPERTIES {self._table(name)}").collect()
        octets = next((str(row["value"]) for row in rows if row["key"] == _PROPERTY), "")
        try:
            return bytes.fromhex(octets).decode()
        except ValueError:
            return ""

    def overwrite(self, name: str, text: str) -> None:
        """Write it again."""
        self._spark.sql(f"ALTER TABLE {self._table(name)} SET TBLPROPERTIES ('{_PROPERTY}' = '{text.encode().hex()}')")

    def delete(self, name: str) -> None:
        """Take it away, if it is there."""
        with suppress(Exception):  # it is no lock any more, whether it goes or not
            self._spark.sql(f"DROP TABLE IF EXISTS {self._table(name)}")

    def _table(self, name: str) -> str:
        # A name has one point at most, and none of the underlines that stand for it.
        return f"{self._schema}.`{self._prefix}_{name.replace('.', '__')}`"


Shelf = FolderShelf | HadoopShelf | CatalogShelf


def quoted(*names: str) -> str:
    """A name of several parts, as SQL is given it."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def _is(error: Exception, name: str) -> bool:
    java = getattr(error, "java_exception", None)
    return name in (java.getClass().getName() if java is not None else str(error))
