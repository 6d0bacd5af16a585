"""Groups, with their histories if there are any, as the data that the page draws."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apportion.comparison import Comparison, advice, every_plan
from apportion.errors import BadInput
from apportion.history.replay_totals import replay_totals, totals_of
from apportion.model.protocols import OTHERS
from apportion.report import switching
from apportion.report.group_data import group_data
from apportion.report.lag_text import page_data
from apportion.report.timeline import commits_in_lanes, lag_line, moments, where_they_end
from apportion.sighting import measures
from apportion.sighting.diagnosing import Evidence
from apportion.sighting.judged import Judged
from apportion.sighting.oddities import own_names
from apportion.sighting.sighting import Sighting

if TYPE_CHECKING:
    from apportion.history.group_history import GroupHistory
    from apportion.history.switch_measures import Switch
    from apportion.history.time_window import AllSeries, GroupTime
    from apportion.model.plan import Plan


def of_present(seen: Sighting | Judged) -> dict[str, Any]:
    """One group of which only the present is known, unless it was judged by more."""
    judged = seen if isinstance(seen, Judged) else Judged(seen)
    sighting = judged.sighting
    planned = [] if sighting.protocol in OTHERS else every_plan(sighting.group)
    return group_data(judged, planned, advice=_advice(sighting, planned))


def of_plans(sighting: Sighting, planned: Sequence[Plan]) -> dict[str, Any]:
    """One group with these plans of it."""
    return group_data(Judged(sighting), planned, advice=_advice(sighting, planned))


def of_remembered(
    remembered: GroupHistory, sighting: Sighting, times: GroupTime | None = None, series: AllSeries | None = None,
    now_ms: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One group with its history, and its lag in time if that is known: commits and log ends are in ``series``.

    now_ms
        When anything of the cluster was last recorded.
    """
    drawn = of_group(Judged(sighting, _evidence(remembered, times, now_ms)), remembered)
    drawn["history"]["lag"] = lag_line(series or {})
    labels = drawn["members"]
    return drawn if times is None else drawn | page_data(labels, times.members, times.whole)


def of_replay(remembered: GroupHistory, sighting: Sighting, walked: Mapping[str, Any]) -> dict[str, Any]:
    """One group's history next to one strategy's moves: ``walked`` is the JSON of ``apportion replay``."""
    settings = "".join(f" {key}={value}" for key, value in walked.get("settings", {}).items())
    replays_of = {walked["assignor"] + settings: totals_of(walked)} if remembered.rebalances else {}
    return group_data(
        Judged(sighting, _evidence(remembered)),
        [],
        history=history(remembered),
        replays=replays(remembered, replays_of),
    )


def _evidence(remembered: GroupHistory, times: GroupTime | None = None, now_ms: int | None = None) -> Evidence:
    """The records' facts about a group over time."""
    at = [rebalance.at for rebalance in remembered.rebalances]
    last_hour = measures.in_last_hour(at, now_ms or max(at)) if at else None
    return Evidence.of(times, rebalanced_at=at, recorded=True, last_hour=last_hour)


def with_switch(sighting: Sighting, switch: Switch, past: GroupHistory | None = None) -> dict[str, Any]:
    """One group with the effects of a switch to the new protocol."""
    return switched(of_present(sighting) if past is None else of_remembered(past, sighting), switch)


def switched(drawn: Mapping[str, Any], switch: Switch) -> dict[str, Any]:
    """A group's data with the effects of a switch, and the answer in its row of the list."""
    return {**drawn, **switch_data(switch), "row": {**drawn["row"], "switch": switching.page_row(switch)}}


def switch_data(switch: Switch) -> dict[str, Any]:
    """The effects of a switch to the new protocol on a group, as one more field of its data."""
    return {
        "switch": {
            "online": switch.online.owner.tolist(),
            "fresh": switch.fresh.owner.tolist(),
            "advice": list(switch.advice),
            "traps": list(switch.traps),
            "history": None if switch.history is None else dict(switch.history),
        }
    }


def of_group(judged: Judged, past: GroupHistory, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One group with its history, its members called as ``history`` has it."""
    sighting = judged.sighting
    planned = [] if sighting.protocol in OTHERS else every_plan(sighting.group)
    drawn = group_data(
        judged, planned, advice=_advice(sighting, planned), history=history(past, names),
        replays=replays(past, replay_totals(past)),
    )  # fmt: skip
    drawn["history"]["commits"] = commits_in_lanes(past, drawn["history"]["rows"])
    return drawn


def _advice(sighting: Sighting, planned: Sequence[Plan]) -> list[str]:
    """Which strategy to take, if several were asked: the verdict of compare, each once, at its default settings."""
    distinct = list({plan.assignor: plan for plan in reversed(planned)}.values())[::-1]
    compared = Comparison(sighting.group, distinct, {}, None, sighting.protocol, sighting.assignor)
    return advice(compared) if len(distinct) > 1 else []


def history(remembered: GroupHistory, names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Every rebalance with its owners under names that a person knows.

    names
        Identity to the name that is shown; None takes client ids where they tell members apart.
    """
    by_offset = {generation.offset: generation for generation in remembered.folded.generations}
    names = labels(remembered) if names is None else names
    moments_of = moments(remembered)
    rows = []
    for rebalance in remembered.rebalances:
        owners = by_offset[rebalance.source_offset].owners() if rebalance.source_offset in by_offset else {}
        rows.append({
            "generation": rebalance.generation, "at": moment(rebalance.at), "cause": rebalance.cause,
            "members": rebalance.members, "moved": rebalance.moved, "kept": rebalance.kept, "given": rebalance.given,
            "needless": rebalance.needless, "complete": rebalance.complete,
            "owners": {topic_partition: names.get(who, who) for topic_partition, who in owners.items()},
            **moments_of[rebalance.source_offset],
        })  # fmt: skip
    return rows


def labels(remembered: GroupHistory) -> dict[str, str]:
    """Identity to a person's name for the member: its client id if no other member of a generation has it too."""
    return own_names(
        [
            [(None if seat.instance_id else seat.identity, seat.client_id) for seat in generation.members]
            for generation in remembered.folded.generations
        ]
    )


def replays(remembered: GroupHistory, replays_of: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each strategy's moves, rebalance by rebalance."""
    rows = []
    for name, moves in replays_of.items():
        skews = {key: moves[key] for key in ("skew_max", "skew_max_then")}
        rows.append({"assignor": name, "moves": where_they_end(remembered.rebalances, moves["by_offset"]), **skews})
    return rows


def moment(at_ms: int) -> str:
    """Milliseconds as ISO 8601 in UTC; "" for times that no calendar holds, and for -1, Kafka's "no timestamp"."""
    if at_ms < 0:
        return ""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return ""


def page_of(groups: list[dict[str, Any]], title: str, name: str) -> str:
    """The page as text; the moment is now, unless SOURCE_DATE_EPOCH fixes it."""
    from apportion.report import page

    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    if fixed and not (fixed.isascii() and fixed.isdecimal() and len(fixed) < 12):
        raise BadInput("SOURCE_DATE_EPOCH", repr(fixed[:40]), "seconds since 1970")
    now = datetime.fromtimestamp(int(fixed), UTC) if fixed else datetime.now(UTC)
    # Bytes of an argument or a file's name that are no UTF-8 come as lone surrogates, which no page can hold.
    title, name = (text.encode("utf-8", "backslashreplace").decode() for text in (title, name))
    return page.render(groups, title=title, source=name, at=now.isoformat(timespec="seconds").replace("+00:00", "Z"))


def origin(path: str, groups: Sequence[Mapping[str, Any]]) -> str:
    """A page's name for a folder: the folder's own, not its path, and how far its records go."""
    newest = max(
        (rebalance["at"] or "" for group in groups for rebalance in group["history"]["rebalances"]), default=""
    )
    name = os.path.basename(os.path.abspath(path))
    return f"{name}, records up to {newest[:16].replace('T', ' ')} UTC" if newest else name


def title_of(groups: Sequence[Mapping[str, Any]]) -> str:
    """A page's name if none is given."""
    return str(groups[0]["group"]) if len(groups) == 1 else f"{len(groups)} consumer groups"
