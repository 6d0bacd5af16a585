"""Places of Delta tables that this process reaches by itself: there a small build needs no Spark.

Spark takes some seconds of processor time for a commit of a few rows, and some more to start; this process takes
hundredths of one. It reaches a local folder, and ``s3a://`` with the keys that the environment names: those that
Spark is given too. What else Spark is told of S3, how it reaches other stores, and a session that somebody handed in,
are Spark's alone.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from apportion.spark import settings
from apportion.spark.delta_log import Logs
from apportion.spark.location import Location
from apportion.spark.shelves import ObjectShelf

_KEYS: Final = (
    "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip
"""One of them is there where keys come from the environment; else a machine's role would have to be asked for."""
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_TELLS_SPARK: Final = re.compile(r"spark\.hadoop\.fs\.s3a\.")
_PLAIN: Final = re.compile(r"(s3a:/)?(/[A-Za-z0-9._=-]+)+")
"""Of other paths ``deltalake`` makes URLs that are not those of Spark, or none."""


@dataclass(frozen=True)
class StoreAddress:
    """A place that is reached, as ``obstore`` and ``deltalake`` name it.

    endpoint
        The address of an S3 server of one's own.
    """

    url: str
    endpoint: str | None = None

    def shelf(self, folder: str = "") -> ObjectShelf:
        """The objects below the place, or below a folder in it."""
        from obstore.store import LocalStore, S3Store

        if self.is_local:
            return ObjectShelf(LocalStore(self.url), folder)
        if self.endpoint is None:
            return ObjectShelf(S3Store.from_url(self.url), folder)
        plain = self.endpoint.startswith("http:")
        store = S3Store.from_url(self.url, endpoint=self.endpoint, client_options={"allow_http": plain})
        return ObjectShelf(store, folder)

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return self.url.startswith("/")

    def logs(self) -> Logs:
        """What the logs of its tables say."""
        return Logs(self.shelf())

    def table(self, name: str) -> str:
        """Where a table is."""
        return f"{self.url}/{name}"

    @property
    def options(self) -> dict[str, str]:
        """What ``deltalake`` is told beside the environment."""
        if self.endpoint is None:
            return {}
        return {"aws_endpoint": self.endpoint, "allow_http": str(self.endpoint.startswith("http:")).lower()}


def reached(location: Location) -> StoreAddress | None:
    """How this process reaches a place; None where it does not, or lacks a library for it (``apportion[delta]``)."""
    if find_spec("deltalake") is None or find_spec("obstore") is None:
        return None
    if _PLAIN.fullmatch(location.root) is None:
        return None
    if location.kind == "folder":
        return StoreAddress(location.root) if location.folder.is_dir() else None
    variable = os.environ.get
    endpoint = settings.s3_endpoint(os.environ)
    if not location.on_s3 or not any(map(variable, _KEYS)) or not (endpoint or any(map(variable, _REGIONS))):
        return None
    if any(map(_TELLS_SPARK.match, settings.from_environment())):
        return None
    return StoreAddress(f"s3://{location.root.removeprefix('s3a://')}", endpoint)
