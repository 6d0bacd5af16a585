"""Whether the members or the topics of a group.json are surely well-formed, found out by columns instead of fields.

Nearly every group is well-formed, and looking at a column of a thousand members at once takes a tenth of the time. So
a yes here is a promise: the judge of ``group_json``, which goes field by field and names the first bad place, would
accept every one of them. A no says nothing; then that judge is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import numpy as np

from apportion.arrays import CAPACITY_MAX
from apportion.model.group import WEIGHT_MAX

_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1
_NONE: Final = type(None)
_TEXTS: Final = ("instance_id", "client_id", "host", "rack")
_NUMBERS: Final = {"generation": (-1, _INT32), "priority": (-(2**31), _INT32), "capacity": (1, CAPACITY_MAX)}
_MEMBER: Final = frozenset({"topics", "owned", *_TEXTS, *_NUMBERS})
_OFFSETS: Final = ("begin", "end", "committed", "lag")
_PARTITION: Final = frozenset({"partition", "racks", "weight", *_OFFSETS})


def members_fit(members: Mapping[str, Any]) -> bool:
    """Whether every member is surely well-formed."""
    rows = list(members.values())
    if not _all_of(rows, dict) or not _texts(members) or not (fields := set().union(*rows)) <= _MEMBER:
        return False
    if not all(_texts_or_none([row.get(name) for row in rows]) for name in fields & set(_TEXTS)):
        return False
    if not all(_whole([row.get(name) for row in rows], *_NUMBERS[name]) for name in fields & _NUMBERS.keys()):
        return False
    owned = [row.get("owned") for row in rows] if "owned" in fields else []
    return _lists_of_names([row.get("topics") for row in rows]) and _owned_fit(owned)


def topics_fit(topics: Mapping[str, Any], most: int) -> bool:
    """Whether every topic is surely well-formed, with at most so many partitions in all."""
    sizes = [description for description in topics.values() if type(description) is int]
    lists = [description for description in topics.values() if type(description) is not int]
    if not _texts(topics) or (sizes and min(sizes) < 0) or not _all_of(lists, list):
        return False
    if sum(sizes) + sum(map(len, lists)) > most:
        return False
    # Entries of topics that are alike may be the same objects.
    rows = list({id(row): row for row in chain.from_iterable(lists)}.values())
    return _entries_fit(rows) and all(map(_each_partition_once, lists))


def _entries_fit(rows: list[Any]) -> bool:
    if not _all_of(rows, dict) or not (fields := set().union(*rows)) <= _PARTITION:
        return False
    ids = [row.get("partition") for row in rows]
    if None in ids or not _whole(ids, 0, _INT32):
        return False
    if not all(_whole([row.get(name) for row in rows], 0, _INT64) for name in fields & set(_OFFSETS)):
        return False
    weights = [row.get("weight") for row in rows] if "weight" in fields else []
    if not set(map(type, weights)) <= {int, float, _NONE}:
        return False
    if not all(0 <= weight <= WEIGHT_MAX for weight in weights if weight is not None):
        return False
    racks = [row.get("racks") for row in rows] if "racks" in fields else []
    return _lists_of_names([names for names in racks if names is not None])


def _each_partition_once(entries: list[Any]) -> bool:
    return len(set(map(itemgetter("partition"), entries))) == len(entries)


def _owned_fit(owned: list[Any]) -> bool:
    """Claims are other people's word: any id is well-formed that 32 bits can hold."""
    held = [one for one in owned if one is not None]
    if not _all_of(held, dict):
        return False
    lists = list(chain.from_iterable([one.values() for one in held]))
    if not _all_of(lists, list) or not _texts(list(chain.from_iterable(held))):
        return False
    if not set(map(type, chain.from_iterable(lists))) <= {int}:
        return False
    try:
        ids = np.fromiter(chain.from_iterable(lists), np.int64)
    except OverflowError:
        return False
    return not len(ids) or bool(ids.min() >= -_INT32 - 1 and ids.max() <= _INT32)


def _lists_of_names(lists: list[Any]) -> bool:
    """Each list that is the same object is looked at once."""
    distinct = list({id(names): names for names in lists}.values())
    return _all_of(distinct, list) and all(map(_texts, distinct))


def _texts_or_none(values: list[Any]) -> bool:
    return _texts([value for value in values if value is not None])


def _texts(values: Collection[Any]) -> bool:
    """Unicode without lone surrogates, by the very type."""
    if not _all_of(values, str):
        return False
    together = "".join(values)
    try:
        return together.isascii() or bool(together.encode())
    except UnicodeEncodeError:
        return False


def _whole(values: list[Any], low: int, high: int) -> bool:
    """Whole numbers in these bounds, by the very type, or nothing."""
    if not set(map(type, values)) <= {int, _NONE}:
        return False
    known = [value for value in values if value is not None]
    return not known or (min(known) >= low and max(known) <= high)


def _all_of(values: Iterable[Any], kind: type) -> bool:
    """Of this very type, every one."""
    return set(map(type, values)) <= {kind}
