"""Where tables or a dump are kept: a local folder, a URI that Spark has a driver for, or a catalog's schema."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote

from apportion.errors import BadInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Kind = Literal["folder", "uri", "catalog"]
FORMS: Final = ("parquet", "delta")
_CATALOGED: Final = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ONE_SLASH: Final = re.compile(r"(s3a?|s3n|hdfs|gs|abfss?|wasbs?):/(?!/)", re.IGNORECASE)
_KEYED: Final = re.compile(r"(?![^/@]*:\d+(/|$))[^/@:]*:[^@]*@")
"""Begins, behind a scheme, with a name, a colon and a key; not with a host and its port."""


@dataclass(frozen=True)
class Location:
    """One place, as a person named it.

    kind, root
        ``folder``: an absolute path; ``uri``: without a slash at its end; ``catalog``: ``catalog.schema``.
    """

    kind: Kind
    root: str

    def __str__(self) -> str:
        return self.root

    @property
    def folder(self) -> Path:
        """The path of a local folder."""
        if self.kind != "folder":
            raise BadInput(self.root, f"a {self.kind}", "a local folder")
        return Path(self.root)

    def path(self, *names: str) -> str:
        """A place below a folder or a URI, as Spark is given it."""
        if self.kind == "catalog":
            raise BadInput(self.root, "a catalog's schema, which has no path", "a folder or a URI")
        # Nothing is escaped: Spark takes what stands there as the names of folders, percent signs too.
        root = f"file://{self.root}" if self.kind == "folder" else self.root
        return "/".join((root, *names))

    @property
    def on_s3(self) -> bool:
        """Whether Spark needs the S3A driver for it."""
        return self.root.startswith("s3a://")


def locate(given: str | Path) -> Location:
    """The meaning of a person's text: ``scheme://...`` is a URI, ``a.b`` a catalog's schema, others a local folder.

    A ``Path``, and a text with a slash or one that is the name of a folder that is there, is a folder always.

    >>> locate("s3a://lake/kafka/").root, locate("main.kafka").kind
    ('s3a://lake/kafka', 'catalog')

    Raises
        BadInput: nothing, as an unset variable gives; a bucket alone; one slash behind a scheme; a web address;
        ``file:`` of another machine; keys in an address, which are not repeated.
    """
    if isinstance(given, Path):
        return Location("folder", str(given.absolute()))
    if not given.strip():
        raise BadInput("place", repr(given), "a folder, a URI such as s3a://bucket/prefix, or catalog.schema")
    if given.lower().startswith(("http://", "https://")):
        raise BadInput(given, "a web address", "a folder, a URI that Spark has a driver for (s3a://, hdfs://), or "
                       "catalog.schema")  # fmt: skip
    if given.lower().startswith("file:"):
        return Location("folder", os.path.abspath(_path_of(given)))
    if _URI.match(given):
        return Location("uri", _uri_of(given))
    if _ONE_SLASH.match(given):
        scheme, _, rest = given.partition(":/")
        slashes = "///" if scheme.lower() == "hdfs" else "//"  # without a name node: that of Hadoop's settings
        needed = f"{_known_scheme(scheme)}:{slashes}{rest}, or ./{given} for a folder of that name"
        raise BadInput(given, "one slash behind a scheme", needed)
    if _CATALOGED.fullmatch(given) and not Path(given).exists():
        return Location("catalog", given)
    return Location("folder", str(Path(given).absolute()))


def _path_of(given: str) -> str:
    """The path that ``file:`` names; ``#`` and ``?`` in it are part of a name, as Hadoop has them."""
    path = given[len("file:") :]
    if path.startswith("//"):
        machine, slash, rest = path.removeprefix("//").partition("/")
        if machine not in ("", "localhost"):
            raise BadInput(given, f"a folder of another machine, {machine}", f"file:///{machine}/{rest}, or a path")
        path = f"{slash}{rest}"
    if not path:
        raise BadInput(given, "no path", "file:///PATH, or a path")
    return unquote(path)


def _uri_of(given: str) -> str:
    scheme, _, rest = given.partition("://")
    if _KEYED.match(rest):
        # Everything prints a place, and a build keeps the one that it was made from. A key may hold a slash.
        open_part = rest.rpartition("@")[2]
        needed = f"{scheme}://{open_part}, and the keys in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
        raise BadInput(f"{scheme}://***@{open_part}", "a key in an address", needed)
    if not rest.partition("/")[2].strip("/") and _known_scheme(scheme) == "s3a":
        bucket = rest.strip("/")
        found, prefix = ("a bucket alone", "a prefix in it") if bucket else ("no bucket", "a bucket and a prefix in it")
        raise BadInput(given, found, f"{prefix}, such as s3a://{bucket or 'BUCKET'}/apportion")
    return f"{scheme.lower()}://{rest}".rstrip("/")


def _known_scheme(scheme: str) -> str:
    """As Spark has it: S3 goes by s3a there, outside of Amazon's own machines."""
    return "s3a" if scheme.lower() in ("s3", "s3n") else scheme.lower()


def check_catalog(spark: SparkSession, location: Location) -> None:
    """Refuse a catalog that the session does not know: the user may have meant a folder."""
    name = location.root.partition(".")[0]
    if name == "spark_catalog" or spark.conf.get(f"spark.sql.catalog.{name}", None):
        return
    try:
        known = {row.name for row in spark.catalog.listCatalogs()}
    except Exception:  # a catalog that cannot list them may still have it: Spark's own error tells
        return
    if name not in known:
        hint = f"a setting spark.sql.catalog.{name} in APPORTION_SPARK_CONF; or ./{location.root} for a folder"
        raise BadInput(location.root, f"no catalog named {name!r} (there are {', '.join(sorted(known))})", hint)


def form_of(location: Location, form: str | None) -> str:
    """``parquet`` or ``delta``, or the form that a catalog is given ("" for its own choice).

    Raises
        BadInput: a form that the place cannot have.
    """
    if form is not None and form not in FORMS and location.kind != "catalog":
        raise BadInput("format", repr(form), " or ".join(FORMS))
    if location.kind == "folder":
        return form or "parquet"
    if location.kind == "uri":
        if form == "parquet":
            why = "plain Parquet, which many files make a table of, and nobody can replace those at once there"
            raise BadInput(location.root, why, "delta (the default there), or a local folder")
        return "delta"
    return form or ("delta" if location.root.startswith("spark_catalog.") else "")
