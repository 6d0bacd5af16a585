"""A real S3 server over a folder, for tests of object stores: versitygw, built on demand (see ``jars``)."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.support import java_artifacts
from tests.support.hanging import HANGING

from apportion.errors import Unavailable
from apportion.testing import processes
from apportion.testing.broker import free_ports


class S3Server:
    """Up for the block: ``with S3Server() as s3``; its buckets are folders below ``root``.

    address, access_key, secret_key
        How to reach it; the keys are made up anew for each server.
    """

    def __init__(self, root: Path | None = None, bucket: str = "lake", host: str = "127.0.0.1") -> None:
        self._program = java_artifacts.s3_server()
        self._scratch = None if root else Path(tempfile.mkdtemp(prefix="apportion-s3-"))
        self.root = root or self._scratch or Path()
        self.bucket, self._host = bucket, host
        self.access_key, self.secret_key = secrets.token_hex(8), secrets.token_hex(16)
        self.port = 0
        self._uploaded: dict[str, tuple[int, int]] = {}
        """Object to the size and time of the file that it was when it was put there."""

    @property
    def address(self) -> str:
        """Of the server, as AWS_ENDPOINT_URL."""
        return f"http://{self._host}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that AWS's own tools, and apportion, take."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": self.address, "AWS_REGION": "us-east-1",
        }  # fmt: skip

    @property
    def hadoop(self) -> dict[str, str]:
        """How to reach the server, as settings of the S3A driver, without ``spark.hadoop.``."""
        return {
            "fs.s3a.access.key": self.access_key, "fs.s3a.secret.key": self.secret_key,
            "fs.s3a.endpoint": self.address, "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true", "fs.s3a.connection.ssl.enabled": "false",
        }  # fmt: skip

    def upload(self, folder: Path, prefix: str) -> None:
        """Put the files of a folder below a prefix of the bucket, those that are new or changed."""
        from pyarrow import fs

        store = fs.S3FileSystem(
            access_key=self.access_key, secret_key=self.secret_key, region="us-east-1", scheme="http",
            endpoint_override=f"{self._host}:{self.port}",
        )  # fmt: skip
        for file in sorted(folder.rglob("*")):
            target = f"{self.bucket}/{prefix}/{file.relative_to(folder)}"
            stat = file.stat()
            mark = stat.st_size, stat.st_mtime_ns
            if file.is_file() and self._uploaded.get(target) != mark:
                with store.open_output_stream(target) as out:
                    out.write(file.read_bytes())
                self._uploaded[target] = mark

    def __enter__(self) -> S3Server:
        (self.root / self.bucket).mkdir(parents=True, exist_ok=True)
        [self.port] = free_ports(1)  # one that no connection is lent until the server listens there
        self._log = Path(tempfile.mkstemp(prefix="apportion-s3-", suffix=".log")[1])
        server = [str(self._program), "--port", f"{self._host}:{self.port}", "--quiet", "posix", str(self.root)]
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        with self._log.open("wb") as log:
            self._process = processes.start(
                [*HANGING, *server], log=log.fileno(), stdout=log.fileno(), env={**os.environ, **keys}
            )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with socket.socket() as door:
                if door.connect_ex((self._host, self.port)) == 0:
                    return self
            time.sleep(0.05)
        self.__exit__(None, None, None)
        raise Unavailable(f"the S3 server did not start: {processes.tail(self._log)}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes.end(self._process)
        self._log.unlink(missing_ok=True)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
