"""Parts of the server by themselves, asked for all that they say: scenes beside those of ``scenes``."""

from __future__ import annotations

import base64
import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.history import made
from tests.serve.played import START, Played, classic, consumer, grown, offsets, share, streams, topic
from tests.serve.scenes import CLICKS, EVEN, IDS, TOPICS, of_all_kinds

from apportion.demo import dump
from apportion.errors import ApportionError
from apportion.history.broker_tasks import BrokerSticky
from apportion.history.records import GroupRecord
from apportion.inputs.load_history import load_histories
from apportion.model.group_json import read_group
from apportion.serve import access, answers, collector, end_times, lag_lines, names, server, switched, tails
from apportion.serve.access import Access
from apportion.serve.end_times import AllEnds, Commits, EndTimes
from apportion.serve.metrics import Renderer, escape, number_text
from apportion.serve.past import GroupPast
from apportion.serve.settings import ServerSettings
from apportion.serve.tails import ReadUpTo, Tails


class Told:
    """Lines."""

    def __init__(self) -> None:
        self.text = ""

    def say(self, *words: object) -> None:
        """One of them."""
        self.text += " ".join(map(str, words)) + "\n"


def error_of(work: Any) -> str:
    """What it gives, or the sentence that it raises."""
    try:
        return repr(work())
    except ApportionError as error:
        return f"{type(error).__name__}: {error}"


def _past(told: Told, one: GroupPast, what: str) -> None:
    """All that is known of a past."""
    told.say(
        f"-- {what}: version {one.version}, causes {dict(one.causes)}, moved {one.moved}, needless {one.needless}, "
        f"{one.rebalance_ms} ms, still {one.standstill_ms} ms, read {one.read_generation}"
    )
    for generation in one.generations:
        seats = {seat.member_id: {t: list(ids) for t, ids in seat.assigned.items()} for seat in generation.members}
        told.say(
            f"   {generation.kind} {generation.number} at {generation.offset}/{generation.at} fresh {generation.fresh} "
            f"holes {generation.holes} {generation.protocol} {generation.facts or ''} {seats}"
        )
    for row in one.rebalances:
        told.say(
            f"   {row.previous_generation} -> {row.generation}: {row.cause}, {row.moved} moved, {row.kept} kept, "
            f"{row.given} given, "
            f"{row.needless} needless, {row.duration_ms} ms, complete {row.complete}"
        )


def pasts(_: pytest.MonkeyPatch) -> str:
    """What is remembered of a group while records and descriptions come in every order."""
    told = Told()
    m = made.member

    def facts(*members: str, kind: str = "classic", **more: Any) -> dict[str, Any]:
        held = {f"app/{name}": {"t": [i, i + 3]} for i, name in enumerate(members)}
        return {**classic("g", held, {}, kind=kind, assignor="range").description, **more}

    shares = [
        (m("a", {"t": [0, 1, 2]}), m("b", {"t": [3, 4, 5]})),
        (m("a", {"t": [0, 1]}), m("b", {"t": [3, 4]}), m("c", {"t": [2, 5]})),
        (m("a", {"t": [0, 1, 3]}), m("c", {"t": [2, 4, 5]})),
        (),
    ]
    records = [made.classic(10 * n, n + 1, *each) for n, each in enumerate(shares, 1)]

    one = GroupPast("g", {})
    for record in records:
        one.take(record)
        _past(told, one, "read")
        for p in range(4):
            one.commit("t", p, 1000 * record.offset + 100 * p)
        one.commit("t", 4, None)
    one.describe(facts("a", "b"), 99_000, True)
    _past(told, one, "described, and followed")
    one.describe(facts("a", "b"), 99_000, False)
    _past(told, one, "described, and not followed")

    one = GroupPast("g", {})
    told_by: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        (("a", "b"), {}),
        (("a", "b"), {}),
        (("a", "b", "c"), {}),
        (("a",), {"state": "PreparingRebalance"}),
        (("b", "a"), {}),
        (("a", "c"), {"generation": 9}),
        ((), {"state": "Empty"}),
        (("s",), {"kind": "share"}),
        (("s",), {"kind": "streams"}),
        (("a",), {"kind": "consumer", "generation": 4}),
        (("a", "b"), {"kind": "consumer", "generation": 5}),
        (("a", "c"), {"kind": "consumer", "generation": 7}),
    ]
    for at, (members, more) in enumerate(told_by):
        one.describe(facts(*members, **more), 1000 * at, False)
        _past(told, one, f"described {members} {more}")
    one.describe(facts("a", "b"), 90_000, True)
    one.describe(facts("a", "b", "c"), 91_000, True)
    _past(told, one, "followed, but nothing read yet")
    one.take(made.classic(95, 12, *shares[0]))
    _past(told, one, "the first record")
    one.take(made.classic(96, 13, *shares[1]))
    one.take(made.gone(97))
    one.take(made.classic(98, 1, *shares[2], holes=3))
    _past(told, one, "a tombstone between")

    same = GroupPast("g", {})
    same.describe(
        {
            **facts(),
            "members": {
                n: {**f, "owned": {"t": ids}}
                for (n, f), ids in zip(facts("a", "b")["members"].items(), ([0, 1, 2], [3, 4, 5]), strict=True)
            },
        },
        5,
        True,
    )
    same.take(made.classic(10, 4, *(replace(s, member_id=f"app-{s.member_id}") for s in shares[0])))
    _past(told, same, "the record is of what was described")

    seeded = GroupPast("g", {})
    seeded.seed(records[:2])
    _past(told, seeded, "seeded")
    seeded.take(records[2])
    _past(told, seeded, "and one more read")
    told.say(error_of(lambda: sorted(seeded.frozen({"t": "id"}).replay("sticky")["total"].items())))
    told.say(
        error_of(lambda: seeded.frozen().replay(BrokerSticky(1))),
        seeded.frozen({"t": "id"}).topic_ids,
        seeded.frozen().runs_tasks,
    )

    long = GroupPast("g", {})
    for n in range(130):
        long.take(made.classic(n, n + 1, *(shares[n % 2])))
    told.say(
        len(long.generations),
        len(long.rebalances),
        long.generations[0].number,
        long.moved,
        long.version,
    )
    return told.text


def epochs(_: pytest.MonkeyPatch) -> str:
    """Groups whose broker assigns: descriptions as records, records that wait for them, epochs that come later."""
    told = Told()

    def new(epoch: int, first: list[int], second: list[int]) -> Mapping[str, Any]:
        members = {"n1": {"clicks": first}, "n2": {"clicks": second}}
        return consumer("g", epoch, members, {}, {"clicks": IDS["clicks"]}).description

    def records(description: Mapping[str, Any], offset: int) -> list[GroupRecord]:
        return [GroupRecord(offset + n, 1000 * (offset + n), one) for n, one in enumerate(description["as_records"]())]

    ids = {"AAAAAAAAAAAAAAAAAAAAAQ": "clicks"}
    one = GroupPast("g", ids)
    for record in records(new(4, [0, 1], [2, 3]), 10):
        one.take(record)
    _past(told, one, "records that wait")
    one.describe(new(5, [0, 1, 2], [3]), 77_000, True)
    _past(told, one, "described")
    one.describe(new(5, [0, 1], [2, 3]), 78_000, True)
    _past(told, one, "described again")
    for record in records(new(5, [0, 1], [2, 3]), 90):
        one.take(record)
    _past(told, one, "records of the same epoch")
    for record in records(new(7, [0], [1, 2, 3]), 100):
        one.take(record)
    _past(told, one, "records of a later one")
    alone = GroupPast("g", ids)
    alone.describe(new(5, [0, 1], [2, 3]), 1_000, False)
    alone.describe(new(6, [0, 1, 2], [3]), 2_000, False)
    alone.describe(new(8, [0], [1, 2, 3]), 3_000, False)
    _past(told, alone, "described alone")
    alone.describe(new(9, [0, 1], [2, 3]), 4_000, True)
    _past(told, alone, "and followed from now on")
    switched = GroupPast("g", ids)
    switched.describe(classic("g", {"n1": {"clicks": [0, 1]}}, {}).description, 1_000, False)
    switched.describe(new(5, [0, 1], [2, 3]), 2_000, True)
    _past(told, switched, "a classic group that is followed as a consumer group")

    tasks = GroupPast("s", {})
    tasks.describe(streams("s", 3, {"a1": ([0, 1], [2], []), "b1": ([2, 3], [0], [1])}).description, 5_000, True)
    _past(told, tasks, "a streams group")
    for record in records(streams("s", 4, {"a1": ([0, 1, 2, 3], [], [])}).description, 20):
        tasks.take(record)
    _past(told, tasks, "and its next epoch")
    told.say(
        tasks.frozen().runs_tasks,
        error_of(lambda: tasks.frozen().replay("sticky")),
        error_of(lambda: sorted(tasks.frozen().replay(BrokerSticky(0))["total"].items())),
    )
    shared = GroupPast("w", {})
    shared.describe(share("w", {"w1": {"orders": [0]}}).description, 5_000, True)
    _past(told, shared, "a share group")
    old = load_histories(str(dump())).groups["profiles-kip848"].events
    few = GroupPast("p", {})
    few.seed(old[: len(old) // 2])
    for record in old[len(old) // 2 :]:
        few.take(record)
    told.say(len(few.generations), len(few.rebalances), dict(few.causes), few.moved, few.version)
    return told.text


def secrets(_: pytest.MonkeyPatch) -> str:
    """Files of secrets, addresses, and what is missing where others reach the server."""
    import tempfile

    told = Told()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "secrets"
        for mode, content in (
            (0o600, b"# a comment\n\n  a-token-of-ours  \nanother-token\n"),
            (0o640, b"a-token-of-ours"),
            (0o604, b"a-token-of-ours"),
            (0o600, b""),
            (0o600, b"#x\n"),
            (0o600, b"short-token"),
            (0o600, b"exactly-12-b"),
            (0o600, b"a token of ours"),
            (0o600, "a-token-\u00e9-ours".encode()),
            (0o600, b"ann:a-password-x"),
            (0o600, b"ann:short"),
            (0o600, b":a-password-x"),
            (0o600, b"ann-a-password-x"),
            (0o600, b"ann:exactly-12-b\n#bob:no\nbob:an:other:one"),
            (0o600, b"#" * (1 << 20)),
            (0o600, b"#" * (1 << 20) + b"\n"),
        ):
            file.write_bytes(content)
            os.chmod(file, mode)
            told.say(f"{mode:o} {content[:60]!r}")
            for token, login in ((str(file), None), (None, str(file))):

                def read(token: str | None = token, login: str | None = login) -> Any:
                    found, notes = access.read_access(token, login)
                    return (
                        [one.hex()[:8] for one in found.tokens],
                        [one.hex()[:8] for one in found.logins],
                        notes,
                        found.asked,
                    )

                told.say("  ", error_of(read).replace(folder, "FOLDER"))
        told.say(error_of(lambda: access.read_access(folder, None)).replace(folder, "FOLDER"))
        told.say(
            error_of(lambda: access.read_access(folder + "/none", None)).replace(folder, "FOLDER"),
            error_of(lambda: access.read_access(None, None)),
            error_of(lambda: access.read_access("a\0b", None)),
        )
    known = Access((hashlib.sha256(b"t").digest(), hashlib.sha256(b"u").digest()), (hashlib.sha256(b"a:b").digest(),))
    for header in (
        None,
        "",
        "Bearer t",
        "Bearer u",
        "bearer  u ",
        "Bearer x",
        "Bearer",
        "Basic " + base64.b64encode(b"a:b").decode(),
        "BASIC " + base64.b64encode(b"a:c").decode(),
        "Basic ???",
        "Basic a",
        "Token t",
        "Bearer a:b",
    ):
        told.say(repr(header), known.allows(header), Access().allows(header))
    for host in (
        "127.0.0.1",
        "127.9.9.9",
        "localhost",
        "::1",
        "[::1]",
        "0.0.0.0",  # noqa: S104 - nothing is listened on
        "::",
        "10.0.0.1",
        "kafka.example",
        "localhost.example",
        "",
    ):
        told.say(host, access.is_loopback(host))
        for tls in (True, False):
            for asked in (Access(), known):
                told.say(
                    "  ",
                    tls,
                    asked.asked,
                    error_of(partial(access.check_exposure, host, tls, asked, False)),
                    access.check_exposure(host, tls, asked, True),
                )
    for text in (
        ":9308",
        "127.0.0.1:9308",
        "[::1]:0",
        "::1:9308",
        "kafka.example:65535",
        "h:65536",
        "h:99999999999",
        "h",
        "",
        "h:",
        "h:-1",
        "h:9a",
        "h:\u0663",
        ":" + "9" * 90,
    ):
        told.say(repr(text), error_of(partial(server.read_listen, text)))
    told.say(
        server.read_listen("[::1]:9", "c", "k").url,
        error_of(lambda: server.read_listen(":1", "c")),
        error_of(lambda: server.read_listen(":1", None, "k")),
    )
    return told.text


def samples(_: pytest.MonkeyPatch) -> str:
    """Which samples of log ends are kept, and lines of lag of many members and partitions."""
    told = Told()
    for step, count in (
        (1000.0, 59),
        (1000.0, 60),
        (1000.0, 61),
        (1000.0, 200),
        (7000.0, 700),
        (61_000.0, 130),
        (59_999.0, 70),
        (3_600_000.0, 65),
    ):
        at = step * np.arange(count, dtype=np.float64)
        rows = end_times.kept(at)
        told.say(
            step,
            count,
            len(rows),
            rows[:4].tolist(),
            rows[-2:].tolist(),
            [int(one) for one in at[rows[: max(0, len(rows) - 60)]] // 1000][:70],
        )
    told.say(end_times.kept(np.zeros(0)).tolist())
    table = EndTimes("id", np.array([0, 1, 3]))
    for n in range(3):
        table.add(10.0 + n, np.array([n, 5, -1]))
    told.say(
        table.times.tolist(),
        table.ends.tolist(),
        table.fits("id", np.array([0, 1, 3])),
        table.fits("other", np.array([0, 1, 3])),
        table.fits("id", np.array([0, 1])),
    )
    for numbers in ([0, 1, 3], [1], [3], [2], [0, 4], [0, 1, 2], []):
        rows_of = table.rows(np.array(numbers, dtype=np.int64))
        told.say(numbers, None if rows_of is None else rows_of.tolist())
    other = EndTimes(None, np.array([0]))
    other.add(11.0, np.array([7]))
    one = read_group(
        {
            "group": "g",
            "topics": {"a": 1, "t": [{"partition": 1}, {"partition": 3}], "u": 1, "z": 2},
            "members": {"m": {"topics": ["a", "t", "u", "z"]}},
        }
    )
    every = AllEnds({"t": table, "a": other, "z": other})
    told.say(every.columns(one).tolist(), AllEnds({}).columns(one).tolist())
    commits = Commits.none(2)
    for n in range(3):
        commits = commits.then(10.0 + n, np.array([n, -1]))
    told.say(commits.at.tolist(), commits.offsets.tolist(), Commits.none(4).offsets.shape)

    wide = topic([(0, 100 + p) for p in range(45)])
    members = {f"app/{m:02}": {"wide": [p for p in range(45) if p % 43 == m]} for m in range(43)}
    with pytest.MonkeyPatch.context() as patch:
        played = Played(patch, ServerSettings(tail=False))
        for n in range(3):
            played.round(
                [classic("w", members, {("wide", p): p + n for p in range(44)})], {"wide": grown(wide, *[2 * n] * 45)}
            )
            state = played.collector.snapshot.groups["w"]
            ends = played.collector.snapshot.ends
            told.say(
                lag_lines.lines(state, ends),
                lag_lines.whole_line(state, ends),
                lag_lines.lines(state, {}),
                lag_lines.whole_line(state, {}),
            )
            at, lag = lag_lines.lag_then(state, {"wide": EndTimes(None, np.arange(45))})
            told.say(at.tolist(), (lag == -1).all())
        played.say("")
        row = answers.row_now(answers.listed(state), state)
        told.say(row["topics"], row["who"][:3], len(row["who"]))
        several = {f"t{n:02}": topic([(0, n % 7)]) for n in range(42)}
        played.round(
            [classic("m", {"a/b": {name: [0] for name in several}}, {(name, 0): 0 for name in several})], several
        )
        told.say(played.answers.summaries["m"]["topics"])
        crowd = classic("c", {f"app/{m:03}": {} for m in range(230)}, {}, wants=["t00"])
        played.round([crowd], several)
        who = played.answers.summaries["c"]["who"]
        told.say(len(who), who[-2:])
    return told.text


def names_shown(_: pytest.MonkeyPatch) -> str:
    """Member ids without client ids, texts that name them, numbers and labels of metrics."""
    told = Told()
    for members in (
        {"ann-1-0fd2": "ann-1", "pod-0-77": "ann-1"},
        {"a": "a", "b": "b", "a-": "a", "a--x": "a"},
        {"x-1": None, "x-2": ""},
        {"c-aa": "c", "d-aa": "d", "aa": None, "aa-2": None},
        {"k-k": "k", "k-kk": "k", "member": None, "member-2": None},
    ):
        told.say(members, names.shown_ids({m: {"client_id": c} for m, c in members.items()}))
    told.say(
        names.nameless_text("a of a-b and b", {"a": "1", "b": "b", "a-b": "x"}), names.nameless_text("nothing", {})
    )
    told.say(
        [
            number_text(n)
            for n in (
                0,
                1.0,
                -3.0,
                0.5,
                1 / 3,
                123456.789,
                999999.5,
                1e6 + 0.25,
                1795710741.25,
                float("nan"),
                float("inf"),
                float("-inf"),
                -1e6 - 0.5,
                1e-9,
            )
        ]
    )
    told.say([escape(text) for text in ("a", 'a"b', "a\\b", "a\nb", 'a\\"\n', "é")])
    return told.text


def bounds(patch: pytest.MonkeyPatch) -> str:
    """Bounds: series, groups that are gone, tails that are kept, drawn groups and switches that are kept."""
    played = Played(patch, ServerSettings(tail=False, most_series=30, names="all,-kminion"))
    played.round(of_all_kinds(), TOPICS)
    played.round(of_all_kinds(), TOPICS)
    played.get("/metrics")
    played.get("/api/v1/groups")
    patch.setattr(played.answers._renderer, "_settings", ServerSettings(names="all", most_series=100_000))
    played.round(of_all_kinds(), TOPICS)
    patch.setattr(played.answers._renderer, "_settings", ServerSettings(names="all", most_series=1))
    played.round(of_all_kinds(), TOPICS)
    played.say(f"{played.answers.notes(played.answers.snapshot)}")
    shown = ServerSettings(names="all", personal=True)
    played.text += b"".join(Renderer(shown).render(played.collector.snapshot, played.now).pieces()).decode()
    for after in (59.5, 60.0, 60.5):
        told = Renderer(shown).render(played.collector.snapshot, played.collector.snapshot.round.at + after)
        played.say(f"{after}: {told.series} series, {told.size} bytes, {told.left_out} left out")
    patch.setattr(answers, "KEPT_PLANS", 2)
    patch.setattr(switched, "KEPT", 2)
    drawn: list[str] = []

    def note(state: Any) -> dict[str, Any]:
        drawn.append(state.name)
        return {}

    patch.setattr(played.answers, "drawn", note)
    for name in ("shop", "next", "shop", "nightly", "shop", "next", "next"):
        played.answers.group_event(name)
    played.say(f"drawn {drawn}")
    for name in ("shop", "next", "nightly", "shop"):
        played.answers._switches.drawn(played.collector.snapshot.groups[name])
        played.say(f"switches kept {list(played.answers._switches._kept)}")
    clock = iter(range(100))
    patch.setattr(time, "monotonic", lambda: float(next(clock)))
    seen = played.collector.snapshot.groups.values()
    for rows, waiting in (switched.Switches().rows(seen) for _ in range(2)):
        played.say(f"{len(rows)} rows, {waiting} wait")
    again = switched.Switches()
    for _ in range(4):
        rows, waiting = again.rows(played.collector.snapshot.groups.values())
        played.say(f"{[row['Group'] for row in rows]}, {waiting} wait")
    patch.setattr(collector, "MOST_GONE", 1)
    patch.setattr(collector, "FORGET_S", 50.0)
    for after in (10, 20, 20, 20, 40):
        played.round(of_all_kinds()[:2] if after > 10 else of_all_kinds()[:5], {"clicks": CLICKS}, after=after)
        played.say(
            f"{[(name, state.gone, state.sentences) for name, state in played.collector.snapshot.groups.items()]}"
        )
        played.say(
            f"{sorted(played.collector._pasts)} {sorted(played.collector._ends)} {sorted(played.collector._missing)}"
        )
    asked: list[Any] = []

    def look(places: Mapping[Any, int]) -> Mapping[Any, Any]:
        asked.append(dict(places))
        return {}

    looker = Tails(look)
    group = read_group(
        {
            "group": "g",
            "topics": {"clicks": [{"partition": p, "begin": 0, "end": 9, "committed": 9 - p % 4} for p in range(9)]},
            "members": {"m": {"topics": ["clicks"]}},
        }
    )
    patch.setattr(tails, "PLACES_MAX", 3)
    patch.setattr(tails, "KEPT", 4)
    for _ in range(5):
        looker.want(group, looker.of(group))
        looker.want(replace(group, offsets=None), ReadUpTo.of_commits(group))
        looker.look()
    played.say(f"{asked} {looker._of_topic}")
    looker.forget("clicks")
    looker.forget("none")
    played.say(f"{looker._of_topic} {ReadUpTo.of_commits(replace(group, offsets=None)).first.tolist()}")
    return played.text


def advice(patch: pytest.MonkeyPatch) -> str:
    """The advised number of members while a group loses members and a topic its id, and a few groups in one round."""
    played = Played(patch, ServerSettings(tail=False, capacity=1.0, catch_up_s=100.0))
    clicks, spent = CLICKS, iter(range(10_000))
    patch.setattr(time, "process_time", lambda: next(spent) / 4)

    def state() -> None:
        for name, one in played.collector.snapshot.groups.items():
            played.say(
                f"{name}: advised {one.advised_members}, manned by {one.manned and one.manned.M}, "
                f"lag {one.total_lag}, {one.distance}, {one.concentration}"
            )

    for turn in range(9):
        members = {} if turn in (4, 5) else EVEN
        reads = [50 + 10 * turn, 40, 80, 0]
        seen = [
            classic(
                name,
                members if name == "g3" else EVEN,
                offsets("clicks", *reads),
                wants=["clicks"] if members or name != "g3" else [],
            )
            for name in ("g1", "g2", "g3", "g4", "g5", "g6", "g7")
        ]
        seen.append(classic("none", {"a/b": {}}, {}, wants=["gone"]))
        played.round(seen if turn < 7 else seen[1:], {"clicks": clicks})
        clicks = grown(clicks, 20, 10, 0, 3) if turn != 5 else topic([(0, 9)] * 4, "new")
        state()
    return played.text


def threads(patch: pytest.MonkeyPatch) -> str:
    """The collector's thread: rounds by the clock, one that breaks, and its end."""
    import threading

    told = Told()
    settings = ServerSettings(interval_s=0.05)
    played = Played(patch, settings)
    one = played.collector
    did: list[str] = []
    over = threading.Event()

    class Tail:
        trouble, since = "", START
        ready = threading.Event()

        def start(self) -> None:
            did.append("tail started")
            self.ready.set()

        def close(self, patience_s: float) -> None:
            did.append(f"tail closed, {patience_s:g} s")

    patch.setattr(one, "_tail", Tail())

    def round_of() -> Any:
        did.append(f"round of {threading.current_thread().name}")
        if len(did) == 3:
            raise RuntimeError("no")
        if len(did) > 4:
            over.set()
        return one.snapshot

    patch.setattr(one, "round", round_of)
    one.start()
    over.wait(120)
    patch.setattr(one, "_disconnect", lambda: did.append("disconnected"))
    one.close()
    told.say(did[:5], did[-2:], one._thread.is_alive(), one._thread.daemon)
    told.say([one.snapshot.trouble, one.snapshot.number, one.snapshot.rounds_failed])
    return told.text + played.text


PARTS = {scene.__name__: scene for scene in (pasts, epochs, secrets, samples, names_shown, bounds, advice, threads)}
