"""Errors of Spark, Java, Kafka and the stores' libraries, in one sentence for a person."""

from __future__ import annotations

import errno
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from apportion.errors import ApportionError, BadInput, Unavailable

_KNOWN: Final = (
    # Those of stores and clusters go before the others, whose words they hold too.
    (r'No FileSystem for scheme "?s3"', "{where}: Spark reads and writes S3 as s3a://; write it so"),
    (
        r"No FileSystem for scheme|Class \S+FileSystem not found",
        "Spark has no driver for {where}; name its package with spark.jars.packages in APPORTION_SPARK_CONF",
    ),
    (
        r"(DATA_SOURCE_NOT_FOUND|find the data source)\S*.*delta|io\.delta\.sql\S* not found",
        (
            "this Spark has no Delta; start it with the package io.delta:delta-spark and its extension, or let "
            "apportion start one"
        ),
    ),
    (r"NoSuchBucket|bucket does not exist|Bucket \S+ does not exist", "{where}: there is no such bucket"),
    (
        (
            r"ExpiredToken|InvalidToken|TokenRefreshRequired|InvalidAccessKeyId|SignatureDoesNotMatch"
            r"|Status Code: 403|403 Forbidden|AccessDenied\b"
            r"|NoAuthWithAWSException|NoAwsCredentialsException|Unable to load credentials"
        ),
        "the store of {where} refused the keys, or there are none (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
    ),
    (
        r"redirect without LOCATION",
        "the bucket of {where} is in another region than AWS_REGION names, or its address is another one",
    ),
    (
        r"error sending request|client error \(Connect\)",
        "the store of {where} did not answer; is its address right (AWS_ENDPOINT_URL), and is it up?",
    ),
    (
        r"PYTHON_VERSION_MISMATCH|different version than that in driver",
        (
            "the executors' Python has another version than the driver's; name one of the same with "
            "spark.pyspark.python in APPORTION_SPARK_CONF"
        ),
    ),
    (
        r"Cannot run program \S*python",
        (
            "the executors have no Python where they look for it; name one with spark.pyspark.python in "
            "APPORTION_SPARK_CONF"
        ),
    ),
    (
        r"No module named '(?:numpy|pyarrow)|PACKAGE_NOT_INSTALLED",
        (
            "the executors' Python lacks NumPy or pyarrow; install them there, or name another Python with "
            "spark.pyspark.python in APPORTION_SPARK_CONF"
        ),
    ),
    (
        r"All masters are unresponsive|Could not connect to spark://",
        (
            "the cluster did not answer; is APPORTION_SPARK_MASTER right, and can its workers reach this machine "
            "(spark.driver.host in APPORTION_SPARK_CONF)?"
        ),
    ),
    (
        r"No space left on device",
        "the disk that holds {where} is full, or that of {scratch}, where Spark works; make room and run it again",
    ),
    (r"Disk quota exceeded", "the disk quota of {where} is used up; free some space and run it again"),
    (r"Read-only file system", "{where} is on a disk that can only be read; choose another folder"),
    (r"Permission denied|AccessDeniedException", "{where} may not be written by this user; choose another folder"),
    (
        r"TopicAuthorization(Exception|Failed)|[Tt]opic authorization failed|access topic",
        "this user may not read __consumer_offsets; it needs the ACLs Describe and Read on that topic",
    ),
    (
        r"GroupAuthorization(Exception|Failed)|access group",
        "this user may not use Spark's consumer group; it needs the ACL Read on groups named spark-kafka-source*",
    ),
    (r"SaslAuthenticationException|Authentication failed", "the broker refused the name or password"),
    (
        r"SslAuthenticationException|SSL handshake failed|PKIX path",
        "the broker's certificate is not one that is trusted here",
    ),
    (r"OutOfMemoryError|Java heap space", "Spark ran out of memory; give it more with APPORTION_SPARK_MEMORY=4g"),
    (
        (
            r"is not a Parquet file|Could not read footer|CANNOT_READ_FILE_FOOTER|FAILED_READ_FILE|Can not read value"
            r"|Parquet file size is|Parquet magic bytes|deserialize thrift|Unexpected end of stream"
            r"|[Cc]orrupt\w* \w*(?:snappy|compressed)|decompress\w* failed"
        ),
        "{file} cannot be read to its end; {remedy}",
    ),
)


SPARK_ENDED: Final = "Spark's Java process has ended: it was killed, or the machine ran out of memory"

_LIBRARIES: Final = ("pyspark", "py4j", "pyarrow", "_internal")
"""Modules of exceptions that are theirs, not ours; ``_internal`` is what ``deltalake`` calls its own."""


COPY_AGAIN: Final = "copy it again"
MAKE_ANEW: Final = "rebuild the tables with pipeline build --full"


@contextmanager
def plainly(where: Path | str, remedy: str = COPY_AGAIN) -> Iterator[None]:
    """Turn errors of the block into an ApportionError that speaks of ``where``.

    remedy
        What to do about a file there that cannot be read to its end.

    What goes wrong on the way out, since Spark was told to end too, does not keep a signal from ending this process.
    """
    try:
        yield
    except Exception as error:
        if (ending := _interrupted(error)) is not None:
            raise ending from None
        if isinstance(error, ApportionError):
            raise
        if isinstance(error, OSError):
            raise _of_system(error, where, remedy) from error
        if type(error).__module__.startswith(_LIBRARIES):
            raise Unavailable(sentence(error, where, remedy)) from error
        raise


def _interrupted(error: BaseException) -> BaseException | None:
    """The interrupt during which an error came up; None if there was none."""
    while (earlier := error.__context__) is not None:
        if isinstance(earlier, KeyboardInterrupt | SystemExit):
            return earlier
        error = earlier
    return None


def sentence(error: BaseException, where: Path | str, remedy: str = COPY_AGAIN) -> str:
    """The one that fits; else the innermost cause that Java gives; ``remedy`` as in ``plainly``."""
    text = str(error)
    java = getattr(error, "java_exception", None)
    if java is not None:
        text = f"{text}\n{java}"
    if ours := re.findall(r"\bapportion\.(?:errors\.)?[A-Z]\w+: (.+)", text):
        return str(ours[-1])
    for pattern, words in _KNOWN:
        if re.search(pattern, text):
            file = re.search(r"file:(?://)?(/[^\s\"']+\.parquet)", text)
            named = file[1] if file else f"a Parquet file of {where}"
            help_ = remedy if file is None or file[1].startswith(f"{where}/") else COPY_AGAIN
            return words.format(where=where, scratch=tempfile.gettempdir(), file=named, remedy=help_)
    who = "Spark" if type(error).__module__.startswith(("pyspark", "py4j")) else f"what reads and writes {where}"
    return f"{who} gave up: {_innermost(text) or type(error).__name__}"


def _of_system(error: OSError, where: Path | str, remedy: str) -> ApportionError:
    if error.errno in (errno.EACCES, errno.EPERM):
        return Unavailable(f"this user may not read or write {error.filename or where}; ask for it, or choose another")
    known = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
    if error.errno in known or "No space left" in str(error):
        return Unavailable(sentence(error, where))
    if error.errno is None:  # of a library, which has no such numbers: a store's, or Arrow of a broken file
        return Unavailable(sentence(error, where, remedy))
    if isinstance(error, ConnectionError):  # of Py4J's; clients of Kafka and of stores have errors of their own
        return Unavailable(f"{SPARK_ENDED}; run it again")
    if error.errno == errno.ENOTDIR:
        return BadInput(str(where), "a file on the way to it", "a folder")
    return Unavailable(f"{error.strerror or error}: {error.filename or where}")


def _innermost(text: str) -> str:
    text = re.sub(r"(?s)<(\?xml|Error|html)\b.*", "", text)  # a store's answer may repeat what it was sent, tokens too
    causes = re.findall(r"(?:Caused by|Exception): (.+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return str(causes[-1] if causes else (lines[0] if lines else ""))[:400]
