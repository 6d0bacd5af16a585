"""Whether the members or the topics of a group.json are surely well-formed, found out by columns instead of fields.

Nearly every group is well-formed, and looking at a column of a thousand members at once takes a tenth of the time. So
a yes here is a promise: the judge of ``group_json``, which goes field by field and names the first bad place, would
accept every one of them. A no says nothing; then that judge is asked.
"""

from __future__ import annotations

import marshal
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import numpy as np

from apportion.arrays import Ints, ints
from apportion.model.build import OwnedLists
from apportion.model.facts import MEMBER_FIELDS
from apportion.model.group import WEIGHT_MAX

_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1
_NONE: Final = type(None)
_TEXTS: Final = ("instance_id", "client_id", "host", "rack")
_NUMBERS: Final = {"generation": (-1, _INT32)} | {name: (fact.low, fact.high) for name, fact in MEMBER_FIELDS.items()}
_MEMBER: Final = frozenset({"topics", "owned", *_TEXTS, *_NUMBERS})
_NOTHING_OWNED: Final = OwnedLists(ints([]), [], ints([]), ints([]))
_RECORD: Final = np.dtype([("kind", "u1"), ("value", "<i4")])
"""A list's head or a number in 32 bits, as ``marshal`` writes them in its version 2."""
_LIST, _NUMBER = b"[i"
_OFFSETS: Final = ("begin", "end", "committed", "lag")
_PARTITION: Final = frozenset({"partition", "racks", "weight", *_OFFSETS})


def members_fit(members: Mapping[str, Any]) -> OwnedLists | None:
    """What the members own, by their places, if every member is surely well-formed; None says nothing."""
    rows = list(members.values())
    if not _all_of(rows, dict) or not _texts(members) or not (fields := set().union(*rows)) <= _MEMBER:
        return None
    if not all(_texts_or_none([row.get(name) for row in rows]) for name in fields & set(_TEXTS)):
        return None
    if not all(_whole([row.get(name) for row in rows], *_NUMBERS[name]) for name in fields & _NUMBERS.keys()):
        return None
    if not _lists_of_names([row.get("topics") for row in rows]):
        return None
    return owned_lists([row.get("owned") for row in rows]) if "owned" in fields else _NOTHING_OWNED


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


def owned_lists(owned: list[Any]) -> OwnedLists | None:
    """What M members own, if each surely says so in the right form: topic to ids, or None."""
    held = [mapping for mapping in owned if mapping is not None]
    if not _all_of(held, dict):
        return None
    topics = list(chain.from_iterable(held))
    lists = list(chain.from_iterable([mapping.values() for mapping in held]))
    if not _texts(topics) or (read := _numbers(lists)) is None:
        return None
    of_member = np.arange(len(owned)).repeat([len(mapping) if mapping else 0 for mapping in owned])
    return OwnedLists(of_member, topics, *read)


def _numbers(lists: list[Any]) -> tuple[Ints, Ints] | None:
    """How many numbers each list has, and all of them; None unless all are whole numbers, by the very type, in 32 bits.

    Claims are other people's word: any id is well-formed that 32 bits can hold. The interpreter's own writer tells the
    types and the values of millions of objects in one pass, where asking each takes several: in ``marshal``'s version
    2 a list and such a number take five bytes each, everything else another letter or more bytes.
    """
    try:
        size = np.fromiter(map(len, lists), np.int64, len(lists))
        written = marshal.dumps(lists, 2)
    except (TypeError, ValueError):
        return None
    if len(written) != _RECORD.itemsize * (1 + len(lists) + int(size.sum())):
        return None
    record = np.frombuffer(written, _RECORD)
    # From the first record on, each that has the expected letter is where the next one begins.
    is_list = np.zeros(len(record), dtype=np.bool_)
    is_list[0] = True
    is_list[1 + np.arange(len(lists)) + size.cumsum() - size] = True
    kind = np.where(is_list, _LIST, _NUMBER)
    return (size, record["value"][~is_list].astype(np.int64)) if (record["kind"] == kind).all() else None


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
