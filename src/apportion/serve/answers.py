"""The answers: the page and its live events, metrics, the API; each made once a round, for all clients."""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from apportion.comparison import compare
from apportion.errors import ApportionError, BadInput, UnknownName
from apportion.history.lag_time import of_readers
from apportion.model.group_json import group_to_dict
from apportion.model.protocols import OTHERS
from apportion.report import lag_text, page, page_groups
from apportion.report.group_list import found_by, row_of
from apportion.serve.advice import sized
from apportion.serve.collector import Collector
from apportion.serve.end_times import SAMPLES, AllEnds
from apportion.serve.exposition import EMPTY, Rendered
from apportion.serve.lag_lines import lines, whole_line
from apportion.serve.metrics import Renderer
from apportion.serve.names import shown_ids
from apportion.serve.own_metrics import OwnMetrics
from apportion.serve.snapshot import GroupState, Snapshot
from apportion.serve.switched import Switches
from apportion.sighting import measures
from apportion.sighting.key_owner import owner_of
from apportion.sighting.oddities import WARN, member_labels
from apportion.sizing.pods import pods

Summaries = Mapping[str, dict[str, Any]]
"""Group to its row of the page's list."""
log = logging.getLogger("apportion.serve")
KEPT_PLANS: Final = 64
"""Groups whose drawn plans are kept, the last asked for."""
MOST_WHY: Final = 6
"""Sentences about a group that the list knows, the gravest."""
MOST_TOPICS: Final = 40
"""Topics of a group that the list knows, those with most to read first: a row goes to every page at every change."""


MOST_MEMBERS: Final = 200
"""Members, and hosts, of a group that the list knows."""


class Answers:
    """Everything that is answered, from the collector's newest snapshot."""

    def __init__(self, collector: Collector) -> None:
        self.collector, self.settings = collector, collector.settings
        self.rendered: Rendered = EMPTY
        self.summaries: Summaries = {}
        self._lags: dict[str, tuple[int | None, ...]] = {}
        self.snapshot = collector.snapshot
        self._connections: Callable[[], int] = int
        self.own = OwnMetrics(
            lambda: self.snapshot,
            lambda: self.scraped,
            lambda: self._connections(),
            collector.faults,
            self.settings.cluster_name,
        )
        self._renderer = Renderer(self.settings, collector.faults)
        self._switches = Switches(collector.faults)
        self._drawn: dict[str, tuple[int, bytes]] = {}
        self._page: tuple[int, bytes] = (-1, b"")
        self._lock = threading.Lock()
        collector.listeners.append(self._take)

    def connections_of(self, count: Callable[[], int]) -> None:
        """The place from which the number of open connections is read."""
        self._connections = count

    @property
    def scraped(self) -> Rendered:
        """A scrape's facts about the cluster: none if the last good round is too old, while one takes long too."""
        fresh = time.time() - self.snapshot.round.at <= self.settings.stale_s
        return self.rendered if fresh else EMPTY

    def exposition(self) -> bytes:
        """All that a scrape gets, as plain text."""
        return b"".join([*self.scraped.pieces(), self.own.text()])

    @property
    def as_of(self) -> str:
        """When the cluster last answered; "" if it never did."""
        return _as_of(self.snapshot)

    def _take(self, snapshot: Snapshot) -> None:
        """A new round, in the collector's thread."""
        faults = self.collector.faults
        summaries = {
            name: faults.guard(name, "row", partial(self._summary, name, state)) or self._without_row(name, state)
            for name, state in sorted(snapshot.groups.items())
        }
        rendered = self._renderer.render(snapshot, time.time())
        with self._lock:
            before, self.rendered = self.rendered, rendered
            self.snapshot, self.summaries = snapshot, summaries
            self._lags = {
                name: (*self._lags.get(name, ())[1 - SAMPLES :], row["lag"]) for name, row in summaries.items()
            }
        self._switches.look_on(snapshot.living, self.settings.interval_s)
        if rendered.left_out and not before.left_out:
            log.warning("%s", self._beyond())

    def _summary(self, name: str, state: GroupState) -> dict[str, Any]:
        """A group's row; the same object if nothing of it has changed."""
        row = {**row_of(state), "why": state.why[:MOST_WHY], **found_by(state, MOST_TOPICS, MOST_MEMBERS)}
        before = self.summaries.get(name)
        return before if before == row else row

    def _without_row(self, name: str, state: GroupState) -> dict[str, Any]:
        """The row of a group of which even that breaks: its name, and why."""
        row: dict[str, Any] = {measure.field: "" if measure.letters else None for measure in measures.listed()}
        why = [*state.noted, *self.collector.faults.sentences(name)]
        return {**row, "group": name, "verdict": WARN, "why": why, "topics": [], "who": []}

    def _beyond(self) -> str:
        bound, left_out = self.settings.most_series, self.rendered.left_out
        return (
            f"{left_out:,} series are beyond the bound of {bound:,} and are not scraped, those of partitions first: "
            "choose families with --names, or raise --max-series."
        )

    def notes(self, snapshot: Snapshot) -> list[str]:
        """The notice that the page and the API put above everything."""
        return [*snapshot.notes(), *([self._beyond()] if self.rendered.left_out else [])]

    # -- page -------------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """The page's name."""
        return self.settings.cluster_name or self.collector.connection.bootstrap

    def page(self) -> bytes:
        """The live page as it begins, packed: the list of groups; pictures follow as events."""
        with self._lock:
            snapshot = self.snapshot
            if self._page[0] != snapshot.number:
                live = {"number": snapshot.number, "notes": self.notes(snapshot)}
                text = page.render(
                    self._with_lags(), title=f"Consumer groups of {self.title}", source="live",
                    at=_as_of(snapshot), live=live,
                )  # fmt: skip
                self._page = snapshot.number, gzip.compress(text.encode("utf-8", "replace"), 1, mtime=0)
            return self._page[1]

    def event(self, before: Summaries | None) -> tuple[bytes, Summaries]:
        """One round as the page's event, and the page's data after it.

        before
            What it has already; None where it has nothing, or something else.
        """
        with self._lock:
            snapshot, now = self.snapshot, self.summaries
        had, lags = before or {}, self._lags
        changes = {
            "number": snapshot.number, "at": _as_of(snapshot), "notes": self.notes(snapshot),
            "whole": before is None, "groups": [
                # Of a group that the page has, what changed of it; of another all, with its lag at the last rounds.
                {"group": name, **{field: value for field, value in summary.items() if had[name].get(field) != value}}
                if name in had else {**summary, "lags": lags.get(name, ())}
                for name, summary in now.items() if had.get(name) != summary
            ],
            "gone": [name for name in had if name not in now],
        }  # fmt: skip
        return b"event: round\nid: %d\ndata: %s\n\n" % (snapshot.number, to_json(changes)), now

    def _with_lags(self) -> list[dict[str, Any]]:
        """Every group's row with its lag at the last rounds, oldest first; later ones a page counts itself."""
        return [{**row, "lags": self._lags.get(name, ())} for name, row in self.summaries.items()]

    def group_event(self, name: str) -> bytes | None:
        """One group's pictures as the page's event; None for an unknown group."""
        snapshot = self.snapshot
        state = snapshot.groups.get(name)
        if state is None:
            return None
        with self._lock:
            known = self._drawn.get(name)
            if known is not None and known[0] == snapshot.number:
                return known[1]
        message = b"event: group\ndata: %s\n\n" % to_json(self.drawn(state))
        with self._lock:
            self._drawn.pop(name, None)
            self._drawn[name] = (snapshot.number, message)
            while len(self._drawn) > KEPT_PLANS:
                del self._drawn[next(iter(self._drawn))]
        return message

    def drawn(self, state: GroupState) -> dict[str, Any]:
        """A group as the report's page draws it."""
        names = None if self.settings.personal else history_names(state)
        page_data = page_groups.of_group(state, state.past.frozen(), names)
        del page_data["row"]  # the page has it already
        page_data["history"]["lag"] = whole_line(state, self.snapshot.ends)
        members = of_readers(state.times, state.group.owner, state.group.M)
        more = lag_text.page_data(member_labels(state.group), members, state.whole)
        if state.advised_members is not None:
            more["advised_members"] = state.advised_members
        return {**page_data, **more, **lines(state, self.snapshot.ends), **self._switches.drawn(state)}

    # -- API --------------------------------------------------------------------------------------------------------

    def groups_json(self) -> bytes:
        """``/api/v1/groups``."""
        snapshot = self.snapshot
        groups = [
            {**self.summaries.get(name, {}), "unknown_since": _moment(state.unknown_since), "gone": state.gone}
            for name, state in sorted(snapshot.groups.items())
        ]
        return to_json({"version": 1, **self._about(snapshot), "groups": groups})

    def group_json(self, name: str) -> bytes | None:
        """``/api/v1/groups/GROUP``: group.json with the plans of every strategy; None if the group is unknown."""
        snapshot = self.snapshot
        state = snapshot.groups.get(name)
        if state is None:
            return None
        plans: list[dict[str, Any]] = []
        best: Mapping[str, str] = {}
        if state.group.M and state.sighting.protocol not in OTHERS:
            with suppress(ApportionError):
                comparison = compare(state.group)
                plans, best = [plan.to_dict() for plan in comparison.plans], comparison.best
        seen = state.sighting
        facts = {"state": seen.state, "protocol": seen.assignor, "kind": seen.protocol, "coordinator": seen.coordinator,
                 "generation": seen.generation}  # fmt: skip
        facts = {name: value for name, value in facts.items() if value is not None}
        about = {"unknown_since": _moment(state.unknown_since), "gone": state.gone, **state.to_dict()}
        switch = self._switches.answer(state)
        switched = {} if switch is None else {"switch": switch.to_dict()}
        return to_json({
            **group_to_dict(state.group), **self._about(snapshot), **facts, **about, "odd": state.odd,
            "plans": plans, "best": best, **switched,
        })  # fmt: skip

    def owner_json(self, name: str, topic: str, key: bytes, partitioner: str) -> bytes:
        """``/api/v1/groups/GROUP/owner``: the member that reads a key; null for what is not known, or not shown.

        Raises
            UnknownName: no such group, topic or partitioner. BadInput: a key that goes to any partition.
        """
        snapshot = self.snapshot
        if name not in snapshot.groups:
            raise UnknownName("group", name[:200], list(self.summaries))
        owner = owner_of(snapshot.groups[name].sighting, topic, key, partitioner)
        return to_json({"version": 1, **self._about(snapshot), "group": name, "topic": topic, **asdict(owner)})

    def pods_json(self, name: str, rule: str) -> bytes:
        """``/api/v1/groups/GROUP/pods``: which pods should go for the advised number of members, and every pod's cost.

        Raises
            UnknownName: no such group. BadInput: another rule, or no number of members is advised.
        """
        snapshot, settings = self.snapshot, self.settings
        state = snapshot.groups.get(name)
        if state is None:
            raise UnknownName("group", name[:200], list(self.summaries))
        sizing, members = None, state.advised_members
        if settings.capacity is not None and members is not None:
            sizing = sized(state, AllEnds(snapshot.ends), settings.capacity, settings.catch_up_s, members)
        if sizing is None or sizing.advised is None:
            raise BadInput(f"group {name[:200]}", "no advised number of members", "serve --capacity, and some rounds")
        leaving = pods(sizing.advised, rule)
        facts = {"members": state.group.M, "advised_members": members, **leaving.to_dict()}
        return to_json({"version": 1, **self._about(snapshot), "group": name, **facts, "sentences": leaving.sentences})

    def switch_json(self) -> bytes:
        """``/api/v1/switch``: a row a group; ``waiting`` groups are not looked at yet, and the next call goes on."""
        snapshot = self.snapshot
        rows, waiting = self._switches.rows(state for _, state in sorted(snapshot.groups.items()))
        return to_json({"version": 1, "at": _as_of(snapshot), "groups": rows, "waiting": waiting})

    def _about(self, snapshot: Snapshot) -> dict[str, Any]:
        return {"at": _as_of(snapshot), "notes": self.notes(snapshot)}

    def ready(self) -> tuple[bool, bytes]:
        """Whether the cluster was reached by the last round, and why not."""
        snapshot = self.snapshot
        well = not snapshot.trouble and snapshot.number > 0
        return well, b"ready\n" if well else f"not ready: {snapshot.trouble}\n".encode()


def history_names(state: GroupState) -> dict[str, str]:
    """Identity to the name that is shown of each member of the remembered generations."""
    members = {
        seat.identity: {"client_id": None if seat.instance_id else seat.client_id}
        for generation in list(state.past.generations)
        for seat in generation.members
    }
    return shown_ids(members)


def _as_of(snapshot: Snapshot) -> str:
    """When the cluster last answered; "" if it never did."""
    return page_groups.moment(int(snapshot.round.at * 1000)) if snapshot.round.at else ""


def _moment(at: float | None) -> str | None:
    return None if at is None else page_groups.moment(int(at * 1000))


def to_json(value: Any) -> bytes:
    """Compact JSON as UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
