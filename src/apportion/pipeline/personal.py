"""Client ids, hosts and user data of old records are dropped or hashed, wherever the silver tables hold them.

Old means: more than so many days before the newest record, not before today, so that building anew from the same
records gives the same tables. Ids of members stay, for rows are told apart by them, though brokers begin them with the
client id in groups of the classic protocol. Bronze keeps what it has; drop its files, or capture into a new folder.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Bools
from apportion.errors import BadInput
from apportion.pipeline.columns import fields_of, longs, piece_of, valid, with_fields

HOW: Final = ("drop", "hash")
WITH_NAMES: Final = (5, 10, 19)
"""Key types whose bodies tell who a member is: of KIP-848, share and streams groups."""
DAY_US: Final = 86_400_000_000


def check(days: int | None, how: str) -> None:
    """Refuse a rule that is none.

    Raises
        BadInput: ``how`` is neither ``drop`` nor ``hash``; days below 0.
    """
    if how not in HOW:
        raise BadInput("personal data", repr(how), "drop or hash")
    if days is not None and days < 0:
        raise BadInput("personal data: days", str(days), "0 or more")


@dataclass(frozen=True)
class Personal:
    """The rule of one build.

    before_us
        Records older than this moment (microseconds) lose what is personal.
    how
        ``drop`` leaves "" in texts and null in bytes; ``hash`` leaves SHA-256 in both, so that equal ones stay equal.
    """

    before_us: int
    how: str

    def nameless(self, name: str, rows: pa.Table) -> pa.Table:
        """Rows of ``generations``, ``epochs`` or ``rejects`` without what is personal and old; others as they are."""
        old = valid(rows["at"]) & (longs(rows["at"].cast(pa.int64())) < self.before_us)
        if not old.any():
            return rows
        if name == "generations":
            return _with(rows, "members", self._members(piece_of(rows["members"]), old))
        if name == "epochs":
            old &= np.asarray(pc.is_in(rows["key_type"], pa.array(WITH_NAMES, pa.int32())))
            bodies = zip(rows["body"].to_pylist(), old.tolist(), strict=True)
            texts = [nameless_body(body, self.how) if is_old else body for body, is_old in bodies]
            return _with(rows, "body", pa.array(texts, pa.string()))
        if name == "rejects":  # the reason stays
            for column in ("key", "value"):
                rows = _with(rows, column, self._left(piece_of(rows[column]), old))
        return rows

    def _members(self, lists: pa.ListArray, old: Bools) -> pa.ListArray:
        structs = lists.values
        is_old = np.zeros(len(structs), dtype=np.bool_)
        first = longs(lists.offsets)
        for row in np.flatnonzero(old).tolist():
            is_old[first[row] : first[row + 1]] = True
        columns = fields_of(structs)
        columns_left = {name: self._left(columns[name], is_old) for name in ("client_id", "host", "user_data")}
        mask = lists.is_null() if lists.null_count else None
        return pa.ListArray.from_arrays(lists.offsets, with_fields(structs, columns_left), mask=mask)

    def _left(self, column: pa.Array, old: Bools) -> pa.Array:
        """The rest of texts or bytes in some rows."""
        is_text = pa.types.is_string(column.type)
        values = column.to_pylist()
        for row in np.flatnonzero(old).tolist():
            value = values[row]
            if self.how == "drop":
                values[row] = "" if is_text else None
            elif value is not None:
                hashed = hashlib.sha256(value.encode() if is_text else value)
                values[row] = hashed.hexdigest() if is_text else hashed.digest()
        return pa.array(values, column.type)


def _with(rows: pa.Table, name: str, values: Any) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), values)


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
