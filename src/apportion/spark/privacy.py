"""Client ids, hosts and user data of old records are dropped or hashed, wherever the silver tables hold them.

Old means: more than so many days before the newest record, not before today, so that building anew from the same
records gives the same tables. Ids of members stay, for rows are told apart by them, though brokers begin them with the
client id in groups of the classic protocol. Bronze keeps what it has; drop its files, or capture into a new folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as sql

from apportion.errors import BadInput
from apportion.spark.schemas import EPOCHS, MEMBER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HOW: Final = ("drop", "hash")
WITH_NAMES: Final = (5, 10, 19)
"""Key types whose bodies tell who a member is: of KIP-848, share and streams groups."""


class Personal:
    """The rule of one run.

    days
        Records newer than this many days before the newest keep everything; None lets all of them.
    how
        ``drop`` leaves "" in texts and null in bytes; ``hash`` leaves SHA-256 in both, so that equal ones stay equal.
    """

    def __init__(self, days: int | None, how: str = "drop") -> None:
        if how not in HOW:
            raise BadInput("personal data", repr(how), "drop or hash")
        if days is not None and days < 0:
            raise BadInput("personal data: days", str(days), "0 or more")
        self.days, self.how = days, how

    def generations(self, decoded: DataFrame, records: DataFrame) -> DataFrame:
        """``silver/generations`` with the members of old ones made nameless."""
        if self.days is None:
            return decoded
        old = sql.col("at") < self._before(records)
        nameless = sql.transform("members", self._nameless)
        return decoded.withColumn("members", sql.when(old, nameless).otherwise(sql.col("members")))

    def epochs(self, decoded: DataFrame, records: DataFrame) -> DataFrame:
        """``silver/epochs`` with the bodies of old members made nameless."""
        if self.days is None:
            return decoded
        how = self.how
        old = sql.coalesce(
            (sql.col("at") < self._before(records)) & sql.col("key_type").isin(*WITH_NAMES), sql.lit(False)
        )
        marked = decoded.select(*EPOCHS.schema.names, old.alias("_old"))

        def blank(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                bodies = zip(batch["body"].to_pylist(), batch["_old"].to_pylist(), strict=True)
                texts = pa.array([nameless_body(body, how) if is_old else body for body, is_old in bodies], pa.string())
                batch = batch.drop_columns(["_old"])
                yield batch.set_column(batch.schema.get_field_index("body"), "body", texts)

        return marked.mapInArrow(blank, EPOCHS.schema)

    def rejects(self, rejected: DataFrame, records: DataFrame) -> DataFrame:
        """``silver/rejects`` without the bytes of old records; the reason stays."""
        if self.days is None:
            return rejected
        old = sql.col("at") < self._before(records)
        for name in ("key", "value"):
            left = self._bytes(sql.col(name)) if self.how == "hash" else sql.lit(None).cast("binary")
            rejected = rejected.withColumn(name, sql.when(old, left).otherwise(sql.col(name)))
        return rejected

    def _before(self, records: DataFrame) -> Column:
        newest = records.agg(sql.max("timestamp").alias("at")).first()
        time = sql.lit(newest["at"] if newest else None).cast("timestamp")
        return time - sql.make_interval(days=sql.lit(self.days))

    def _nameless(self, member: Column) -> Column:
        fields = [member[name].alias(name) for name in MEMBER.names]
        for position, name in enumerate(MEMBER.names):
            if name in ("client_id", "host"):
                left = sql.sha2(member[name], 256) if self.how == "hash" else sql.lit("")
                fields[position] = left.alias(name)
            if name == "user_data":
                left = self._bytes(member[name]) if self.how == "hash" else sql.lit(None).cast("binary")
                fields[position] = left.alias(name)
        return sql.struct(*fields)

    @staticmethod
    def _bytes(column: Column) -> Column:
        return sql.unhex(sql.sha2(column, 256))


def nameless_body(body: str | None, how: str) -> str | None:
    """A member's JSON (key types 5, 10, 19) without client id, host, end point, tags, and its word as a classic member.

    >>> nameless_body('{"clientId":"ann","clientHost":"/10.0.0.1","rebalanceTimeoutMs":5}', "drop")
    '{"clientId":"","clientHost":"","rebalanceTimeoutMs":5}'
    """
    if body is None:
        return None
    fields: dict[str, Any] = json.loads(body)
    for name in ("clientId", "clientHost"):
        if fields.get(name) is not None:
            fields[name] = hashlib.sha256(fields[name].encode()).hexdigest() if how == "hash" else ""
    if fields.get("userEndpoint"):
        fields["userEndpoint"] = None
    if fields.get("clientTags"):
        fields["clientTags"] = []
    for protocol in (fields.get("classicMemberMetadata") or {}).get("supportedProtocols", []):
        protocol["metadata"] = ""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
