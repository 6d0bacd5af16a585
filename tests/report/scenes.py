"""Made-up groups, and all that each module of ``report`` says of them: ``golden/NAME.txt`` holds it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from tests.support.golden import of_fields, of_page

import apportion
from apportion import comparison
from apportion.assignors.streams import Streams
from apportion.history.cause import CommitInterval
from apportion.history.fold import Folded
from apportion.history.group_history import replayed
from apportion.history.lag_time import Age, LagTime, LagTimes, Series
from apportion.history.member_speeds import Speed
from apportion.history.rebalance_rows import Rebalance
from apportion.history.records import Generation, GenerationMember
from apportion.history.task_what_if import TaskStage
from apportion.history.time_window import GroupTime
from apportion.inputs.described_group import Observed
from apportion.model.build import build
from apportion.model.group import Group
from apportion.report import (
    comparing,
    describing,
    gating,
    group_data,
    group_list,
    history_text,
    lag_text,
    notebook,
    oddities,
    page,
    page_groups,
    replaying,
    replaying_tasks,
    roles,
    rollouts,
    task_roles,
    task_steps,
    text,
    timeline,
    verdicts,
    watching,
)
from apportion.report import sizing as sizes
from apportion.report.describing import ShownGroup

NAN, INF = float("nan"), float("inf")
Lines = Iterator[Any]


def group(
    lags: Sequence[int | None] | Mapping[str, Sequence[int | None]], members: Mapping[str, Any], **more: Any
) -> Group:
    """A group of lags of one topic ``t`` or several; a member is the partitions of ``t`` it holds, or whole."""
    of = lags if isinstance(lags, Mapping) else {"t": lags}
    topics = {
        topic: [
            {"partition": p} if lag is None else {"partition": p, "begin": 0, "end": 100 + lag, "committed": 100}
            for p, lag in enumerate(each)
        ]
        for topic, each in of.items()
    }
    whole = {
        name: {"topics": list(of), "owned": {"t": m} if m else {}, "generation": 1} if isinstance(m, list) else m
        for name, m in members.items()
    }
    return build({"group": "g", "topics": topics, "members": whole, **more})


# -- lag in time ----------------------------------------------------------------------------------------------------

AGES = [
    Age(None, None, None),
    Age(None, 40.0, None),
    Age(12.4, 12.0, 12.9),
    Age(50.0, 30.5, 90.0),
    Age(0.0, 0.0, 0.0),
    Age(1234.5, 1200.0, None),
    Age(9.5, 9.0, 10.0),
    Age(9.5, 9.0, 10.01),
    Age(None, 0.0, None),
]
WHOLES = [
    LagTime(age, lag, left, written, read, ends)
    for age, (lag, left, written, read, ends) in product(
        (AGES[0], AGES[1], AGES[3], AGES[4]),
        (
            (None, 0, None, None, None),
            (0, 0, 1.0, 1.0, 0.0),
            (1, 0, 0.0, 0.0, None),
            (2, 0, 5.0, 5.0, 0.0),
            (1500, 1500, 10.0, 4.0, INF),
            (1500, 900, 4.0, 10.25, 250.4),
            (1500, 900, 4.0, 4.0, INF),
            (1500, 900, 1.0, 10.0, INF),
            (7, 7, None, 2.0, None),
        ),
    )
]


def times(rows: Sequence[LagTime]) -> LagTimes:
    """As arrays."""

    def column(pick: Callable[[LagTime], float | None]) -> Any:
        return np.array([NAN if (value := pick(row)) is None else value for row in rows])

    lag = np.array([-1 if row.lag is None else row.lag for row in rows], dtype=np.int64)
    left = np.array([row.to_read for row in rows], dtype=np.int64)
    return LagTimes(
        column(lambda row: row.age.seconds),
        column(lambda row: row.age.at_least),
        column(lambda row: row.age.at_most),
        lag,
        left,
        column(lambda row: row.written),
        column(lambda row: row.read),
        column(lambda row: row.catch_up_s),
    )


SPEEDS = {
    "none": Speed(None, None, None, 2),
    "slow": Speed(10.0, 9.0, 11.5, 12),
    "fast": Speed(40.25, 30.0, 50.0, 9, 8),
    "like": Speed(11.0, 10.0, 12.0, 20),
    "few": Speed(99.0, 98.0, 99.5, 9, 1),
    "some": Speed(99.0, 98.0, 99.5, 2),
    "still": Speed(0.0, 0.0, 0.0, 30),
}


def lag_in_time() -> Lines:
    """Ages, paces and speeds in words and tables."""
    yield from (f"{age}: {lag_text.age_in_words(age)}" for age in AGES)
    for one in WHOLES:
        said = "" if one.lag is None else lag_text.in_a_sentence(one)
        yield f"{one.lag} {one.to_read} {one.trend} {one.catch_up_s} {one.age.at_least}: {said} {lag_text.pace(one)}"
        yield from of_fields(lag_text.page_data(["a", "b"], times([one, WHOLES[4]]), one))
    yield from of_fields(lag_text.page_data([], times([]), WHOLES[13]))
    two = group({"t": [5, 6, None], "u": [1, 0]}, {"a": [0, 1], "b": []})
    timed = times([WHOLES[13], WHOLES[21], WHOLES[0], WHOLES[31], WHOLES[1]])
    members = {"a": SPEEDS["slow"], "b": SPEEDS["few"]}
    for whole, speed_of in ((WHOLES[13], members), (WHOLES[0], {}), (WHOLES[22], {**members, "b": SPEEDS["none"]})):
        seen = [True, True, False, True, True]
        one_time = GroupTime(timed, times([WHOLES[15], WHOLES[6]]), whole, speed_of, seen)
        yield from lag_text.notes(one_time, 12.5)
        yield text.to_csv(lag_text.partitions(two, one_time))
        if speed_of:
            yield text.render(lag_text.members(two, one_time))
            yield text.to_csv(lag_text.members(two, one_time))
    yield lag_text.behind_by_topic(two, timed)
    yield lag_text.behind_by_topic(two, times([WHOLES[0]] * 5))
    three = group([1], {name: [] for name in SPEEDS})
    yield text.render(lag_text.speeds(three, SPEEDS))
    for names in (
        ("slow", "fast"),
        ("like", "slow"),
        ("slow", "few"),
        ("fast", "some", "slow"),
        ("still", "slow"),
        ("none", "slow"),
        ("none",),
        ("none", "none"),
        tuple(SPEEDS),
        ("still", "some"),
    ):
        yield f"{names}: {lag_text.speed_notes({name: SPEEDS[name] for name in names}, 600.0)}"
    hour = lag_text.HOUR_MS
    yield [lag_text.in_last_hour([0, 1, 5, hour, hour + 1], now) for now in (0, 1, hour, hour + 1, hour + 5, 3 * hour)]


# -- verdicts and oddities ------------------------------------------------------------------------------------------


def strange_groups() -> dict[str, Group]:
    """Groups at the bounds of every figure."""
    even = {f"m{i}": [2 * i, 2 * i + 1] for i in range(3)}
    u = {"topics": ["u"], "owned": {"u": [0]}, "generation": 1}
    both = {"topics": ["t", "u"], "owned": {"t": [0, 1, 2], "u": [1, 2]}, "generation": 1}
    return {
        "even": group([10] * 6, even),
        "no lag": group([0] * 6, even),
        "one partition": group([60], {"a": [0]}),
        "half on one": group([50, 25, 25], {"a": [0], "b": [1, 2]}),
        "below half": group([49, 25, 26], {"a": [0], "b": [1, 2]}),
        "49 of few": group([49, 20, 20], {"a": [0], "b": [1, 2]}),
        "two partitions": group([90, 10], {"a": [0], "b": [1]}),
        "heavier member": group([500, 30, 10, 10], {"a": [0, 1], "b": [2, 3]}),
        "alone with it": group([500, 24, 10, 10], {"a": [0, 1], "b": [2, 3]}),
        "a bit more": group([500, 26, 10, 10], {"a": [0, 1], "b": [2, 3]}),
        "one member only": group([500, 300, 10, 10], {"a": [0, 1, 2, 3]}),
        "nobody's": group([500, 3, 1, 1], {"a": [1, 2, 3]}),
        "one of three": group([30, 30, 20, 10, 10], {"a": [0, 1], "b": [2], "c": [3, 4]}),
        "heavy": group([10_000, 2_499, 2_500, 2_501], {n: [i] for i, n in enumerate("abcd")}),
        "not heavy": group([9_999, 1, 1, 1, 9_999], {n: [i] for i, n in enumerate("abcde")}),
        "heavy alone": group([20_000, 20_000, 0], {"a": [0, 1], "b": [2]}),
        "4 to 1": group([1] * 5, {"a": [0, 1, 2, 3], "b": [4]}),
        "3 to 2": group([1] * 5, {"a": [0, 1, 2], "b": [3, 4]}),
        "5 to 2": group([1] * 7, {"a": [0, 1, 2, 3, 4], "b": [5, 6]}),
        "idle": group([1, 1], {"a": [0, 1], "b": [], "c": [], "d": [], "e": []}),
        "idle enough": group([1] * 4, {"a": [0, 1, 2, 3], "b": []}),
        "all idle": group([1] * 4, {"a": [], "b": []}),
        "no owner": group([1, 5, 0], {"a": [0], "b": []}),
        "none owned": group([1, 5, 0], {"a": [], "b": [0, 1, 2]}),
        "twice": group([1, 5, 0], {"a": [0, 1], "b": [1, 2]}),
        "wrong claims": group([1, 5], {"a": [0, 7], "b": [1, 9]}),
        "one wrong claim": group([1, 5], {"a": [0, 7], "b": [1]}),
        "nobody": group([1, 5], {}),
        "nobody, no lag": group([0, 0], {}),
        "nobody, unknown": group([None, None], {}),
        "never": group([None, None], {"a": [0, 1]}),
        "some unknown": group([4, None], {"a": [0, 1]}),
        "two wishes": group({"t": [1] * 4, "u": [1] * 3}, {"a": both, "b": u}),
        "two wishes, fair": group({"t": [1] * 2, "u": [1] * 3}, {"a": [0, 1], "b": {**u, "owned": {"u": [0, 1, 2]}}}),
        "whole topics": group(
            {"t": [1] * 3, "u": [1] * 3},
            {"a": [0, 1, 2], "b": {"topics": ["t", "u"], "owned": {"u": [0, 1, 2]}, "generation": 1}},
        ),
        "whole topic of two": group(
            {"t": [1] * 2, "u": [1] * 2},
            {"a": [0, 1], "b": {"topics": ["t", "u"], "owned": {"u": [0, 1]}, "generation": 1}},
        ),
        "capacities": group(
            [1] * 6, {"a": {"topics": ["t"], "owned": {"t": [0]}, "generation": 1, "capacity": 5}, "b": [1, 2, 3, 4, 5]}
        ),
        "wanted, not there": group(
            [1], {"a": {"topics": ["t", *(f"gone-{i:02}" for i in range(20))], "owned": {"t": [0]}, "generation": 1}}
        ),
    }


def verdicts_of() -> Lines:
    """Each group's verdict by kind, strategy and what is told."""
    for name, one in strange_groups().items():
        for more in (
            {},
            {"kind": "simple"},
            {"kind": "share"},
            {"kind": "streams"},
            {"protocol": "failover"},
            {"owners_told": False},
        ):
            yield f"{name} {more}: {verdicts.judge(one, **more)}"  # type: ignore[arg-type]
    offsets = [
        {"partition": p, "begin": begin, "end": 100, "committed": 40}
        for p, begin in enumerate((39, 40, 41, 42, 43, 90))
    ]
    lost = build(
        {
            "topics": {
                "t": [
                    *offsets,
                    {"partition": 6, "begin": 0, "end": 100, "committed": 101},
                    {"partition": 7, "begin": 50, "end": 60},
                ]
            },
            "members": {"a": {"topics": ["t"], "owned": {"t": list(range(8))}, "generation": 1}},
        }
    )
    yield (
        verdicts.judge(lost),
        verdicts.judge(lost, expired=np.arange(8) == 2),
        verdicts.judge(lost, expired=np.zeros(8, bool)),
    )
    empty = build({"topics": {"t": [*offsets]}, "members": {}})
    yield verdicts.judge(empty), verdicts.judge(empty, "simple")
    even = strange_groups()["no lag"]
    s = 1_000
    storms: list[tuple[list[int], int | None]] = [
        ([0, 12, 24, 36, 48, 60], None),
        ([0, 12, 24, 36, 48, 61], None),
        ([0, 1, 2, 3, 4], None),
        ([0, 10, 20, 30, 40, 50, 60, 70], None),
        ([0, 1, 2, 3, 4, 5, 3600], None),
        ([0, 1, 2, 3, 4, 5, 3605], None),
        ([0, 1, 2, 3, 4, 5, 3606], None),
        ([0, 1, 2, 3, 4, 5], 3605),
        ([0, 1, 2, 3, 4, 5], 3606),
        ([*range(0, 70, 10), *range(1000, 1006)], 2000),
        ([*range(6), *range(1000, 1300, 60)], 1300),
        ([*range(40)], 4000),
        ([], 5),
        ([-50, *range(0, 40, 5)], None),
    ]
    for at, now in storms:
        yield (
            at,
            now,
            verdicts.judge(even, rebalanced_at=[s * one for one in at], now_ms=None if now is None else s * now),
        )


def oddities_of() -> Lines:
    """What is odd about each."""
    states = (
        None,
        "Stable",
        "Empty",
        "Dead",
        "rebalancing",
        "PreparingRebalance",
        "CompletingRebalance",
        "Assigning",
        "Reconciling",
    )
    for name, one in strange_groups().items():
        yield f"{name}: {oddities.oddities(one)}"
        told = [
            oddities.oddities(one, "Stable", kind, protocol=protocol, owners_told=owners, assumed=assumed)
            for kind in (None, "classic", "streams", "share", "simple")
            for protocol in (None, "failover")
            for owners, assumed in ((True, False), (False, False), (True, True))
        ]
        before: list[str] = []
        for each in told:
            yield f"  {'as before' if each == before else each}"
            before = each
    for kind, owners in product((None, "classic", "simple", "share"), (True, False)):
        for which in ("even", "nobody", "nobody, no lag", "nobody, unknown"):
            said = [oddities.oddities(strange_groups()[which], state, kind, owners_told=owners)[:1] for state in states]
            yield f"{kind} {owners} {which}: {said}"
    labels = group(
        [1],
        {
            n: {"topics": ["t"], "client_id": c, "instance_id": i}
            for n, c, i in (
                ("a", "x", None),
                ("b", "x", None),
                ("c", "y", None),
                ("d", "z", "pod"),
                ("e", None, None),
                ("f", "", None),
            )
        },
    )
    yield oddities.member_labels(labels), oddities.member_labels(labels, [3, 0]), oddities.member_label(labels, 2)


# -- lists ----------------------------------------------------------------------------------------------------------


def lists() -> Lines:
    """Rows of the list, their order by each column, and how they are shown."""
    rows: list[dict[str, Any]] = []
    for name, one in strange_groups().items():
        kind = {"nobody": "simple", "two wishes": "consumer"}.get(name, "classic")
        seen = ShownGroup(
            one,
            Observed({}, "Stable" if one.M else None, "range" if one.M else None, kind, owners_told=name != "no owner"),
        )
        number = len(rows)
        paces: list[dict[str, Any]] = [
            {},
            {"behind_s": 4.4, "trend": -1.5, "catch_up_s": 12.5, "last_hour": 3},
            {"behind_s": None, "trend": 2.0, "catch_up_s": None, "last_hour": 0},
            {"behind_s": 0, "trend": 0.0, "catch_up_s": 0.0},
            {"behind_s": 100.6, "trend": None, "catch_up_s": None},
        ]
        one_of_list = group_list.judged(seen, [1000 * i for i in range(number % 7)], paces[number % 5])
        rows.append(group_list.row_of(one_of_list) | {"group": name})
        yield rows[-1]
        yield f"known: {group_list.known_of(rows[-1])}, never {group_list.never(rows[-1])}, "
        yield f"heaviest {seen.heaviest}, found by {group_list.found_by(one_of_list)}"
    for sort in ("trouble", *group_list.FIELD_OF):
        yield f"{sort}: {[row['group'] for row in sorted(rows, key=lambda row: group_list.order(row, sort))]}"
    yield text.render(group_list.table(rows).narrow())
    yield text.to_csv(group_list.table(rows))
    yield text.render(group_list.table(rows[:1]).narrow())
    yield (
        group_list.order({"group": "x", "verdict": "", "lag": None}),
        group_list.order({"group": "x", "verdict": "OK", "lag": 4}),
    )


# -- texts ----------------------------------------------------------------------------------------------------------


def texts() -> Lines:
    """Tables fitted to terminals, cells, names and folded sentences."""
    table = text.TextTable(
        ("NAME", "#LAG", "A LONG-NAME", "SHARE", "NOTE"),
        [
            ("a", 5, "orders-service-0-a7fc7ff8-7ed3", 0.25, "the first, which is long enough to be cut"),
            (None, 123456.7, "\x1b[2Jé", "50 %", None),
            ("注文注文注文注文注文", -3, "é" * 20, "12 *", "x"),
            ("e\u0301" * 9, None, "", "3.5", "y"),
        ],
        "A title\nof two lines",
        frozenset({"#LAG"}),
    )
    for width in (0, 20, 40, 50, 60, 70, 78, 79, 80, 81, 90, 100, 200):
        yield f"{width}:"
        yield text.render(text.fitted(table, width))
        yield text.render(text.fitted(table.narrow(), width), bold=True)
    yield text.to_csv(table), table.records(), table.narrow().records()
    for width in range(3, 20):
        yield (
            [text._middle(one, width) for one in ("abcdefghijklmnop", "注文注文注文", "é" * 15)],
            text.cut("abcdefghijklmnop注", width),
        )
    yield [text._shown(cell) for cell in (None, 0.0, 999.94, 1000.0, -1000.4, 12345.6, 1e-7, 7, "x", 0.123456)]
    columns: list[list[text.Cell]] = [
        [], [None], [None, 3], ["3 *", 4], ["4 %"], ["4 x", 4], ["1.5"], ["1.5.5"], [""], ["*"], ["x"],
    ]  # fmt: skip
    yield [text._numeric(cells) for cells in columns]
    sentence = (
        "! One member carries 77% of the lag: consumer-1-"
        + "f" * 30
        + ", 6 of 8 messages: its-own-name-has-hyphens, 注文 too."
    )
    for width in (5, 19, 20, 21, 22, 40, 60, 79, 80, 130):
        yield f"{width}:\n{text.fold(sentence, width)}"
    yield [text.field_name(name) for name in ("#PARTITIONS", "LOG-END-OFFSET", "A B", "##X-", "COORDINATOR (ID)")]
    yield text.records_to_ndjson([{"a": "é", "b": None}, {}]), text.printable("a\tb\u202e\ud800 é~")
    yield [text.cell_width(one) for one in ("abc", "注文", "e\u0301", "\uff41", "é")]


# -- the live view --------------------------------------------------------------------------------------------------


def watched() -> Lines:
    """Looks at a group one after the other."""

    def standing(lags: Sequence[int], members: Mapping[str, Any], state: str = "Stable") -> ShownGroup:
        whole = {
            name: {
                "topics": ["t"],
                "client_id": client,
                "owned": {"t": owned} if owned else {},
                "generation": 1,
                "instance_id": static,
            }
            for name, (client, owned, static) in members.items()
        }
        return ShownGroup(group(lags, whole), Observed({}, state, "range", generation=3))

    three = {"a-1": ("app", [0, 1], None), "a-2": ("app", [2], None), "pod-0-9": ("pod", [3], "pod-0")}
    view = watching.View()
    yield repr(view.text())
    looks = [
        standing([5, 0, 1000, 40], three),
        standing([5, 0, 1000, 40], three),
        standing([5, 0, 900, 41], {**three, "new": ("n", [], None)}),
        standing([0, 0, 0, 0], {**three, "a-1": ("app", [0], None), "new": ("n", [1], None)}, "PreparingRebalance"),
        standing([1, 2, 3, 4], {n: m for n, m in three.items() if n != "a-2"}),
        standing([1, 2, 3, 4], {**three, "pod-0-10": three["pod-0-9"]}),
        standing([1, 2, 3, 4], {f"m{i}": (f"client-{i}", [i] if i < 4 else [], None) for i in range(7)}),
        standing([7], {}, "Empty"),
    ]
    for number, look in enumerate(looks):
        view.take(look, 1_795_272_800.0 + 61.5 * number)
        yield view.text(), view.text(50), view.text(34, 9), view.text(100, 4)
    for number in range(12):
        view.take(looks[number % 2 + 2], 1_795_280_000.0 + number)
    yield view.text(120)
    for before, now in pairwise(looks):
        yield watching.difference(before, now), "\n".join(watching.bars(now, 60)), "\n".join(watching.bars(now, 140))


# -- history --------------------------------------------------------------------------------------------------------


def rebalance(offset: int, cause: str = "join", **more: Any) -> Rebalance:
    """One that moved something."""
    known: dict[str, Any] = {
        "source_offset": offset,
        "at": 1_795_000_000_000 + 1000 * offset,
        "kind": "classic",
        "generation": offset + 1,
        "previous_generation": offset,
        "cause": cause,
        "members": 3,
        "joined": (),
        "left": (),
        "moved": offset % 4,
        "kept": 5,
        "given": 1,
        "handed": 0,
        "inherited": 0,
        "dropped": 0,
        "needless": 1,
        "skipped": 0,
        "duration_ms": 40,
        "complete": True,
    }
    return Rebalance(
        **{name: value for name, value in {**known, **more}.items() if name in Rebalance.__dataclass_fields__}
    )


class Past:
    """Generations of a group of six partitions that two or three members share."""

    name, runs_tasks = "g", False

    def __init__(self, habits: bool = True) -> None:
        shares = [
            {"a": [0, 1, 2], "b": [3, 4, 5]},
            {"a": [0, 1], "b": [3, 4], "c": [2, 5]},
            {"a": [0, 1], "c": [2, 5]},
            {"a": [0, 1, 3], "c": [2, 5, 4]},
        ]
        made = [
            Generation(
                10 * n,
                1_795_000_000_000 + 60_000 * n,
                "classic",
                n + 1,
                tuple(
                    GenerationMember(
                        f"{name}-id", ("t",), {"t": tuple(ids)}, "static-c" if name == "c" else None, f"client-{name}"
                    )
                    for name, ids in share.items()
                ),
                "range",
                1_795_000_000_000 + 60_000 * n - 300,
            )
            for n, share in enumerate(shares)
        ]
        self.folded = Folded(made, None)
        self.rebalances = [
            rebalance(10 * n, cause, at=made[n].at, generation=n + 1, previous_generation=n, moved=n)
            for n, cause in ((1, "join"), (2, "leave"), (3, "hand-over"))
        ]
        self.rebalances[1] = rebalance(20, "leave", at=-1)
        self.habits = (
            [
                CommitInterval(after, "t", p, 3 + p, made[0].at + 100 * p, made[0].at + 9000 + p)
                for after in (-1, 0, 10, 15, 30)
                for p in (0, 4)
            ]
            if habits
            else []
        )
        self.habits += [CommitInterval(10, "t", 1, 9, -1, 5)] if habits else []

    def replay(self, assignor: Any) -> dict[str, Any]:
        """What a strategy would have moved."""
        return replayed(self.name, self.folded.generations, self.rebalances, {}, assignor, None)


def histories() -> Lines:
    """A history as the page's rows, as lines of commits and of lag, and in a few lines of text."""
    for past in (Past(), Past(habits=False)):
        as_past: Any = past
        moments = timeline.moments(as_past)
        for offset, row in moments.items():
            yield offset, {name: sorted(value) if name == "movers" else value for name, value in row.items()}
        yield (
            timeline.commits_in_lanes(as_past, ["t-0", "t-1", "t-4"]),
            timeline.commits_in_lanes(as_past, [*(f"x-{n}" for n in range(39)), "t-4", "t-0"]),
        )
        yield page_groups.labels(as_past)
        story = {
            "sticky": {"then": {10: 2, 20: 0, 30: 1}, "by_offset": {10: 1, 30: 4}, "skew_max": 1, "skew_max_then": 2}
        }
        for names in (None, {"a-id": "A"}):
            rows = page_groups.history(as_past, names)
            yield from (
                json.dumps({**row, "owners": sorted(row["owners"].items()), "movers": sorted(row["movers"])})
                for row in rows
            )
            yield from of_fields(group_data._history(rows))
        yield page_groups.replays(as_past, story)
    hand = [
        rebalance(n, cause)
        for n, cause in enumerate(("join", "hand-over", "hand-over", "leave, hand-over", "join", "leave", "hand-over"))
    ]
    yield (
        timeline.where_they_end(hand, {n: n + 1 for n in range(7)}),
        timeline.where_they_end(hand, {3: 5}),
        timeline.where_they_end([], {}),
    )
    series = {
        ("t", 0): Series(ends=[(1000, 10), (3000, 30)], commits=[(900, 4), (3500, 30)]),
        ("t", 1): Series(ends=[(2000, 7)], commits=[(2500, 9)]),
        ("t", 2): Series(ends=[(500, 7)], commits=[]),
    }
    yield timeline.lag_line(series), timeline.lag_line({})
    many = {("t", 0): Series(ends=[(n, n + 5) for n in range(700)], commits=[(0, 1)])}
    yield len(timeline.lag_line(many)), timeline.lag_line(many)[:2], timeline.lag_line(many)[-1]
    rows = [rebalance(n, at=at) for n, at in enumerate((0, -1, 10**18, 1_795_000_000_000, 1_795_000_060_999))]
    for count in (0, 1, 3, 4, 5):
        yield text.render(history_text.last(rows[:count])) if count else ""
    one = ShownGroup(strange_groups()["4 to 1"], Observed({}, "Stable"))
    yield (
        [text.render(table) for table in history_text.tables(one, rows)],
        [text.render(table) for table in history_text.tables(ShownGroup(strange_groups()["nobody"], Observed({})), [])],
    )
    totals = [
        {"moves": 4, "moves_then": 9, "skew_max": 2, "skew_max_then": 3},
        {"moves": 1500, "moves_then": 9, "skew_max": 0, "skew_max_then": 3},
        {"moves": 0, "moves_then": 0, "skew_max": 1, "skew_max_then": 1},
    ]
    stories: list[dict[str, Any]] = [
        {"sticky": totals[0], "range": totals[1]},
        {"range": totals[2], "sticky": totals[2]},
        {},
        {"lag-aware": {**totals[2], "moves_then": 7}},
    ]
    for each in stories:
        yield history_text.notes(one, each)
    yield text.render(history_text.totals(stories)), text.render(history_text.totals([]))
    yield (
        [page_groups.moment(at) for at in (-1, 0, 999, 1_795_000_000_000, 10**15, 10**19)],
        [replaying.moment(at) for at in (None, -1, 0, 999, 10**15, 10**19)],
    )
    yield [group_data._natural(name) for name in ("pod-10", "pod-2", "", "7", "a1b22", "x" + "9" * 20)]
    yield [group_data._moves(owners) for owners in ([], [-1], [0, 0], [0, 1], [0, -1, 1, -1, 1, 0])]


def replays() -> Lines:
    """A replayed history as tables and sentences, of partitions and of tasks."""
    base = {"generation": 4, "at_ms": 1_795_000_000_000, "members": 3, "partitions": 9, "tasks": 8, "rounds": 2}
    figures = {
        "moves_then": 5,
        "moves": 2,
        "load_min_then": 2,
        "load_max_then": 4,
        "load_min": 3,
        "load_max": 3,
        "cold": 1,
        "cold_then": 7,
        "restored": 3,
        "restored_then": 6,
    }
    racks = {"rack_misses_then": 4, "rack_misses": 1}
    total = {
        "generations": 1,
        "moves": 2,
        "moves_then": 5,
        "skew_max": 0,
        "skew_max_then": 2,
        "cold": 1,
        "cold_then": 7,
        "restored": 3,
        "restored_then": 1600,
        "rounds": 1,
    }
    for rows in (
        [{**base, **figures}],
        [{**base, **figures, **racks}, {**base, "at_ms": None}],
        [{**base, **figures, "rack_misses": 0, "rack_misses_then": 3, "load_min": None}],
    ):
        table = replaying.generations({"generations": rows})
        yield text.render(table.narrow()), text.to_csv(table)
    yield text.to_csv(
        replaying_tasks.generations(
            {"generations": [{**base, **figures}, {**base, **figures, "at_ms": -1, "load_max": 9}]}
        )
    )
    variants: list[dict[str, Any]] = [
        {},
        {"generations": 0},
        {"moves": 5},
        {"moves": 1, "moves_then": 0, "generations": 2},
        {"skew_max": 2},
        {**racks, "moves_then": 12345},
        {"rack_misses": 2, "rack_misses_then": 0},
        {"cold": 1234, "rounds": 3, "generations": 9},
    ]
    for more in variants:
        told = {**total, **more}
        yield replaying.notes({"total": told, "assignor": "sticky"})
        for score in (
            None,
            {"epochs": 0, "predicted": 0},
            {"epochs": 1, "predicted": 1},
            {"epochs": 2000, "predicted": 1999},
        ):
            yield replaying_tasks.notes(
                {"total": told, "assignor": "broker-sticky", **({} if score is None else {"score": score})}
            )
    act = {
        "at_ms": 1_795_000_000_000,
        "generation": 3,
        "member": "a",
        "before": 1234.5,
        "after": 100.2,
        "unit": "messages",
        "moves": 2,
    }
    for acts, looks, left in (
        ([act, {**act, "unit": "s", "at_ms": -1}], 12, {"too soon": 3, "nothing to gain": 7000}),
        ([act], 1, {}),
        ([], 1000, {"too soon": 1000}),
    ):
        yield (
            text.render(replaying.acts({"acts": acts})),
            replaying.acting_notes({"acts": acts, "looks": looks, "left": left}),
        )


# -- tasks, shares and steps ----------------------------------------------------------------------------------------


def roles_of() -> Lines:
    """Members of streams and share groups."""
    tasks = [
        GenerationMember(
            "m2",
            client_id="c",
            process_id="p2",
            roles={"active": {"0": (0, 1, 2), "1": (5,)}, "standby": {}, "warmup": {"0": (4,)}},
        ),
        GenerationMember(
            "m1", process_id="p1", roles={"active": {"0": (3,)}, "standby": {"0": (3, *range(10, 40, 2))}}
        ),
        GenerationMember("m3", roles={"active": {"0": (4,)}, "standby": {"0": (4,)}, "target": {"0": (1,)}}),
    ]
    share = [
        GenerationMember(
            f"s{n}",
            client_id="job" if n else None,
            roles={"shared": {"t": tuple(range(n))}, **({"target": {"t": (0, 1)}} if n != 3 else {})},
        )
        for n in range(5)
    ]
    more = [GenerationMember("w", roles={"shared": {"t": (1,)}})]
    for kind, members in product(("streams", "share", "consumer", None), (tasks, tasks[:1], share, more, [])):
        for wide in (False, True):
            table = roles.roles_table(kind, members, wide)
            yield (
                f"{kind} {len(members)} {wide}:",
                "none" if table is None else text.to_csv(table),
                "" if table is None else text.render(table.narrow()),
            )
        yield roles.roles_data(kind, members), roles.roles_dict(kind, members), roles.sentences(kind, members)


def task_plans() -> Lines:
    """Plans of tasks with standbys and warm-ups, and steps of a streams group."""
    members = {f"m{i}": {"topics": ["t"], "client_id": f"p{i}"} for i in range(3)}
    owned = {**members, "m0": {**members["m0"], "owned": {"t": list(range(9))}, "generation": 1}}
    plans = [
        apportion.plan({"group": "g", "topics": {"t": 9}, "members": who}, assignor)
        for who in (members, owned)
        for assignor in (
            Streams(),
            Streams(num_standby_replicas=1),
            Streams(num_standby_replicas=2, max_warmup_replicas=3),
        )
    ]
    plain = apportion.plan({"group": "g", "topics": {"t": 9}, "members": members}, "sticky")
    for plan in (*plans, plain):
        yield (
            task_roles.cells(plan),
            task_roles.notes(plan),
            task_roles.step_notes([("first", plan), ("second", plans[-1])]),
            task_roles.step_notes([("only", plan)]),
        )
    yield task_roles.has_roles(plans), task_roles.has_roles([plain]), task_roles.has_roles([plain, plans[0]])
    steps = [("join 1", plans[0]), ("leave m0", plans[-1]), ("grow", plain)]
    for planned in (steps, steps[2:], [("join 2", plans[4])]):
        yield (
            text.to_csv(comparing.steps(planned[0][1].group, planned)),
            text.render(comparing.steps(planned[0][1].group, planned).narrow()),
            comparing.step_notes(planned),
        )
    measures = {"moves": 2, "cold": 1, "restored": 1, "standbys": 4, "load_min": 2, "load_max": 3}
    stages = [
        TaskStage("broker", "now", 2, 3, 8, 0, dict.fromkeys(measures, 0)),
        TaskStage("streams", "join 1", 3, 4, 8, 1, measures),
        TaskStage("streams", "leave x", 2, 3, 8, 2, {**measures, "cold": 0, "restored": 1, "moves": 1}),
        TaskStage(
            "broker-sticky", "join 1", 3, 4, 8, 1, {**measures, "moves": 1, "cold": 3, "restored": 0, "load_max": 2}
        ),
    ]
    yield text.render(task_steps.table(stages)), task_steps.notes(stages), task_steps.notes(stages[:1])


def compared() -> Lines:
    """Strategies side by side, and what a gate says."""
    racked = {
        "a": {"rack": "x", "topics": ["t"], "owned": {"t": [0, 1, 2]}, "generation": 1},
        "b": {"rack": "y", "topics": ["t", "u"]},
    }
    topics = {
        "t": [
            {"partition": p, "racks": ["xy"[p % 2]], "begin": 0, "end": 10 * p + 7, "committed": 5} for p in range(5)
        ],
        "u": 2,
    }
    groups = [
        build({"group": "racked", "topics": topics, "members": racked}),
        strange_groups()["capacities"],
        strange_groups()["twice"],
        strange_groups()["never"],
        strange_groups()["no owner"],
    ]
    for one in groups:
        seen = comparison.compare(one, ["range", "sticky", "lag-aware", "failover"])
        for marks in (True, False):
            table = comparing.comparison_table(seen, marks=marks)
            yield text.to_csv(table), text.render(table.narrow())
        yield (
            comparing.notes_now(one),
            notebook.comparison_to_html(seen),
            notebook.group_to_html(one),
            [notebook.plan_to_html(plan) for plan in seen.plans],
        )
        planned = [(plan.assignor, plan) for plan in seen.plans]
        yield (
            text.to_csv(comparing.steps(one, planned)),
            text.render(comparing.steps(one, planned).narrow()),
            comparing.step_notes(planned),
        )
    wide = group([1] * 70, {f"m{i:02}": {"topics": ["t"]} for i in range(53)})
    yield (
        notebook.group_to_html(wide),
        notebook.plan_to_html(
            apportion.plan(
                group({f"t{i:02}": [1] * 15 for i in range(14)}, {"<a>": {"topics": [f"t{i:02}" for i in range(14)]}}),
                "range",
            )
        ),
    )
    breached = [{"policy": "max-moves", "limit": 1, "found": 2}, {"policy": "max-lag", "limit": 500, "found": 501}]
    yield (
        text.render(gating.table(breached)),
        gating.reasons(breached, "the plan"),
        gating.reasons(breached[:1], "it"),
        gating.reasons([], "the plan"),
    )


def described() -> Lines:
    """Headings, tables and data of groups as sources tell them."""
    seen = [
        Observed({}),
        Observed({}, "Stable", "range", "classic", "kafka:9092 (1)", 12, sentences=["One more."]),
        Observed({}, kind="share"),
        Observed({}, owners_told=False, left_out=["line 4 says so"]),
        Observed({}, "Empty", assumed="everything"),
    ]
    for name in ("even", "twice", "no owner", "never", "some unknown", "nobody", "capacities", "no lag"):
        for told in seen:
            one = ShownGroup(strange_groups()[name], told)
            yield one.heading, one.total_lag, one.lags, one.reads, one.read_by, one.odd
        yield one.to_dict(), one.members_data()
        for table in (
            describing.states([one]),
            describing.members(one),
            describing.members(one, True),
            describing.partitions([one]),
        ):
            yield text.to_csv(table), text.render(table.narrow())
    big = ShownGroup(group([1] * 61, {f"m{i}": {"topics": ["t"], "rack": "x"} for i in range(61)}), seen[1])
    small = ShownGroup(group([1] * 60, {f"m{i}": {"topics": ["t"], "rack": "x"} for i in range(60)}), seen[1])
    yield big.members_data(), (small.members_data() or {}).get("head")
    yield text.render(describing.members(ShownGroup(group([1] * 60, {"a": list(range(0, 60, 2))}), seen[1])))


# -- pages ----------------------------------------------------------------------------------------------------------


def pages(patch: pytest.MonkeyPatch) -> Lines:
    """Pages as text, packed and plain, and what the page may load."""
    two = {
        "a</script>": {"topics": ["t"], "host": "/10.0.0.1", "owned": {"t": [0, 1]}, "generation": 1},
        "b\u2028": {"topics": ["t"], "host": "10.0.0.1", "capacity": 3},
    }
    one = build({"group": "<g>", "topics": {"t": 4}, "members": two})
    data = group_data.group_data(
        one, [apportion.plan(one, "sticky"), apportion.plan(one, "range")], facts={"state": "Stable", "kind": "share"}
    )
    bare = group_data.group_data(strange_groups()["some unknown"], [])
    shown = page.render([data, bare], title="<T> & \x07", source="s", at="2026-11-21T14:53:20Z")
    yield (
        of_page(shown),
        shown.count("</script>"),
        page.policy() == page.policy(False),
        page.policy(True).replace(page.policy(), "..."),
    )
    live = page.render([], title="t", source="live", at="", live={"number": 3})
    yield of_page(live), "connect-src 'self'" in live, "connect-src" in shown
    yield page.embed({"a": "<b>\u2028\u2029</script>é"})
    yield from of_fields(
        page.packed_group({**data, "replays": [{"assignor": "x", "moves": [1]}, {"assignor": "y", "more": 2}]})
    )
    patch.setattr(page, "PACK_ABOVE", 100)
    packed = page.render([data, bare], title="t", source="s", at="")
    kind, carried = packed.split('<script type="')[1].split('" id="data">')
    yield kind, of_carried(carried.split("</script>")[0])
    kind, carried = (
        page.render([data], title="t", source="s", at="", live={"number": 1})
        .split('<script type="')[1]
        .split('" id="data">')
    )
    yield kind, [sorted(json.loads(line)) for line in of_carried(carried.split("</script>")[0]).split("\n")]
    patch.setattr(page, "PACK_ABOVE", 1_000_000)
    patch.setenv("SOURCE_DATE_EPOCH", "1795272828")
    yield of_page(page_groups.page_of([], "a\ud800", "b\udcff"))
    yield page_groups.title_of([data]), page_groups.title_of([data, bare]), page_groups.title_of([])
    yield (
        page_groups.origin("/x/y/dump/", [data]),
        page_groups.origin("dump", [{"history": {"rebalances": [{"at": None}, {"at": "2026-11-21T14:53:20Z"}]}}]),
    )
    for rows in (239, 240, 241, 250):
        keys = [("t", p) for p in range(rows)]
        past: list[dict[str, Any]] = [
            {"owners": dict.fromkeys(keys, "a")},
            {
                "owners": {key: "b" if key[1] >= rows - 5 else "a" for key in keys[3:]},
                "movers": [("t", rows - 1), ("t", 236)],
            },
        ]
        drawn = group_data._history(past)
        yield (
            rows,
            len(drawn["rows"]),
            drawn["rows"][:2],
            drawn["rows"][-8:],
            drawn["left_out"],
            drawn["movers"],
            drawn["labels"],
            drawn["owners"][-1],
        )
    yield group_data._history([])


def of_carried(packed: str) -> str:
    """What a page carries packed."""
    import base64
    import gzip

    return gzip.decompress(base64.b64decode(packed)).decode()


def rolled() -> Lines:
    """Rollouts as tables, in sentences, and as the page draws them."""
    from apportion import rollouts as rolling

    members = {f"{client}-{i}": {"topics": ["t"], "client_id": client} for i, client in enumerate("aab")}
    wide = {
        "x": {"topics": ["t", "u"], "client_id": "x"},
        "y": {"topics": ["t"], "rack": "r1", "instance_id": "pod-y"},
        "z": {"topics": ["t", "u"], "rack": "r2"},
    }
    topics = {"t": [{"partition": p, "racks": ["r1"] if p < 2 else ["r1", "r2"]} for p in range(7)], "u": 2}
    for who, steps in (
        (members, ["rolling", "grow t:9"]),
        (members, ["scale 5"]),
        (wide, ["join 2"]),
        (wide, ["lose-rack r1"]),
        (wide, ["scale 2", "join 1"]),
    ):
        for protocol in ("eager", "cooperative", "consumer"):
            start = build({"group": "g", "topics": topics if who is wide else {"t": 7}, "members": who})
            known: Any = protocol
            try:
                from apportion import whatif

                settled = whatif.settled(apportion.plan(start, rolling.PROTOCOLS[known]))
                stages = rolling.rollout(settled, steps, known, static=who is wide)
            except apportion.ApportionError as error:
                yield f"{steps} {protocol}: {error}"
                continue
            yield (
                f"{steps} {protocol}",
                text.to_csv(rollouts.table(stages)),
                rollouts.notes(stages, protocol),
                rollouts.changes_in_words(stages),
            )
            yield from of_fields(
                rollouts.page_data(Observed({}, "Stable", "range", generation=4), settled, stages, rolling.Times())
            )
    yield from of_fields(rollouts.page_data(Observed({}), strange_groups()["even"], [], rolling.Times()))
    big = whatif.settled(apportion.plan(build({"topics": {"t": 300}, "members": members}), "cooperative-sticky"))
    drawn = rollouts.page_data(Observed({}), big, rolling.rollout(big, ["scale 4"], "cooperative"), rolling.Times())[
        "history"
    ]
    yield (
        drawn["left_out"],
        len(drawn["rows"]),
        drawn["rows"][:3],
        drawn["rows"][-3:],
        drawn["rebalances"][-1]["stopped"],
    )


def sized() -> Lines:
    """The members that a group may have, proved and not, and as the page draws them."""
    weights = {"t": [{"partition": p, "weight": 30 + 7 * (p % 3)} for p in range(8)], "u": 2}
    owned = {"t": [0, 1, 2, 3]}
    members = {
        "a": {"topics": ["t"], "owned": owned, "generation": 1},
        "b": {"topics": ["t", "u"], "owned": {"t": [4, 5], "u": [0]}, "generation": 1},
    }
    lags = [{"partition": p, "begin": 0, "end": 100 + 9 * p, "committed": 100} for p in range(6)]
    few = {f"m{n}": {"topics": ["t"], "owned": {"t": [n]}, "generation": 1} for n in range(5)}
    for raw, capacity, by in (
        ({"group": "grows", "topics": weights, "members": members}, 150, None),
        ({"topics": {"t": lags}, "members": few}, 60, "lag"),
        ({"group": "few", "topics": {"t": 12}, "members": few}, 5.5, "partitions"),
    ):
        sizing = apportion.size(raw, capacity, by)
        unproved = replace(
            sizing,
            frontier=tuple(
                replace(one, moved_bound=one.moved - 1.0004 * (n % 2 == 0)) for n, one in enumerate(sizing.frontier)
            ),
        )
        for each in (sizing, unproved, replace(sizing, chosen=None)):
            for marks in (True, False):
                table = sizes.table(each, marks=marks)
                yield text.to_csv(table), text.render(table.narrow())
            yield from of_fields(sizes.page_data(Observed({}, "Stable", "range"), each, ["Measured so."]))
    yield from of_fields(sizes.page_data(Observed({}), sizing))


def grouped() -> Lines:
    """A group as the page draws it: by itself, with plans, with its history and its lag in time, and replayed."""
    raw = {
        "group": "g",
        "topics": {"t": [{"partition": p, "begin": 0, "end": 10 * p + 7, "committed": 5} for p in range(6)]},
        "members": {
            name: {"topics": ["t"], "client_id": f"client-{name}", "owned": {"t": owned}, "generation": 4}
            for name, owned in (("a-id", [0, 1, 3]), ("c-id", [2, 5, 4]))
        },
    }
    past: Any = Past()
    total = {"generations": 2, "moves": 4, "moves_then": 6, "skew_max": 1, "skew_max_then": 2}
    rows = [{"source_offset": 10 * n, "moves": n, "moves_then": 3 - n} for n in (1, 2, 3)]
    walked = {"assignor": "sticky", "generations": rows, "total": total}
    series = {("t", 0): Series(ends=[(1000, 10), (3000, 30)], commits=[(900, 4), (3500, 30)])}
    for seen in (
        Observed(raw, "Stable", "range", "classic", generation=4),
        Observed(raw, "Empty", kind="streams"),
        Observed(raw, "Stable", "uniform", generation=4, kind="consumer"),
    ):
        one = build(seen.raw)
        lag = GroupTime(
            times([WHOLES[n] for n in range(6)]), times([WHOLES[5], WHOLES[14]]), WHOLES[23], {}, [True] * 6
        )
        yield from of_fields(page_groups.of_observed(seen))
        yield from of_fields(page_groups.of_plans(seen, [apportion.plan(one, "range"), apportion.plan(one, "sticky")]))
        for when in ((), (lag,), (lag, series), (lag, series, 1_795_000_200_000), (None, series, 1_795_009_000_000)):
            yield from of_fields(page_groups.of_remembered(past, seen, *when))
        yield from of_fields(page_groups.of_replay(past, seen, walked))
        settings = {"settings": {"order": "balance", "by": "lag"}}
        yield page_groups.of_replay(past, seen, {**walked, **settings})["replays"]
        alone: Any = Past(habits=False)
        alone.rebalances = []
        yield page_groups.of_replay(alone, seen, walked)["replays"]


def large_and_governed() -> Lines:
    """Plans of more members than a table shows, groups too large to be planned, and a group that is governed."""
    from apportion.inputs.governed import CarriedPlan
    from apportion.report import tables

    for count in (40, 41):
        members = {f"m{i:02}": {"topics": ["t"], "instance_id": "pod" if i == 39 else None} for i in range(count)}
        for topic in (count, [{"partition": p, "begin": 0, "end": 5 + p} for p in range(count)]):
            plan = apportion.plan({"group": "g", "topics": {"t": topic}, "members": members}, "sticky")
            yield tables.plan_notes(plan), text.render(tables.plan_members(plan).narrow())
            yield len(tables.plan_members(plan, wide=True).rows), text.to_csv(tables.plan_rows(plan))
            yield tables.diff_to_dict(plan, plan.owner), text.render(tables.diff(plan, plan.group.owner, "the present"))
    two = strange_groups()["two wishes"]
    yield verdicts._fullest(two), verdicts._fullest(strange_groups()["capacities"]), len(oddities.whole_topics(two))
    governed = CarriedPlan(1_764_000_000_000, {("t", p): "a" for p in range(5)}, ["b"])
    for told in (Observed({}, "Stable", governed=governed), Observed({}, owners_told=False)):
        yield ShownGroup(strange_groups()["even"], told).to_dict()


def said(lines: Iterable[Any]) -> str:
    """Lines as a file has them."""
    parts: list[str] = []
    for one in lines:
        parts += [
            each if isinstance(each, str) else _plain(each) for each in (one if isinstance(one, tuple) else (one,))
        ]
    return (
        "".join(part if part.endswith("\n") else part + "\n" for part in parts)
        .encode("utf-8", "backslashreplace")
        .decode()
    )


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _of(scene: Callable[[], Lines]) -> Callable[[pytest.MonkeyPatch], str]:
    return lambda _: said(scene())


SCENES = {
    **{
        scene.__name__: _of(scene)
        for scene in (
            lag_in_time,
            verdicts_of,
            oddities_of,
            lists,
            texts,
            watched,
            histories,
            replays,
            roles_of,
            task_plans,
            compared,
            described,
            rolled,
            sized,
            grouped,
            large_and_governed,
        )
    },
    "pages": lambda patch: said(pages(patch)),
}
