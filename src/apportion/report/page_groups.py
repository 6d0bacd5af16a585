"""Groups, with their histories where there are any, as the data that the page draws."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apportion.comparison import Comparison, advice, every_plan
from apportion.errors import BadInput
from apportion.history.fold import OTHERS
from apportion.history.replay_totals import replay_totals, totals_of
from apportion.model.build import build
from apportion.report import switching
from apportion.report.describing import shown
from apportion.report.diagnosing import Evidence
from apportion.report.group_data import group_data, told_of
from apportion.report.group_list import judged
from apportion.report.lag_text import behind_by_topic, in_last_hour, pace, page_data
from apportion.report.oddities import member_labels, own_names
from apportion.report.roles import roles_data
from apportion.report.timeline import commits_in_lanes, lag_line, moments, where_they_end
from apportion.report.verdicts import Verdict, judge

if TYPE_CHECKING:
    from apportion.history.group_history import GroupHistory
    from apportion.history.replay_totals import Past
    from apportion.history.switch_measures import Switch
    from apportion.history.time_window import AllSeries, GroupTime
    from apportion.model.group import Group
    from apportion.model.plan import Plan
    from apportion.sources.described_group import Observed


def of_observed(observed: Observed, verdict: Verdict | None = None) -> dict[str, Any]:
    """One group of which only the present is known, unless its verdict rests on more."""
    group = build(observed.raw)
    planned = [] if observed.kind in OTHERS else every_plan(group)
    return group_data(group, planned, facts=facts(observed, group, planned, verdict=verdict))


def of_plans(observed: Observed, planned: Sequence[Plan]) -> dict[str, Any]:
    """One group with these plans of it."""
    return group_data(observed.group, planned, facts=facts(observed, observed.group, planned))


def of_remembered(
    remembered: GroupHistory, observed: Observed, times: GroupTime | None = None, series: AllSeries | None = None,
    now_ms: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One group with its history, and its lag in time where that is known: commits and log ends are in ``series``.

    now_ms
        When anything of the cluster was last recorded.
    """
    group = build(observed.raw)
    drawn = of_group(group, observed, remembered, times=times, now_ms=now_ms)
    drawn["history"]["lag"] = lag_line(series or {})
    return drawn if times is None else drawn | page_data(member_labels(group), times.members, times.whole)


def of_replay(remembered: GroupHistory, observed: Observed, walked: Mapping[str, Any]) -> dict[str, Any]:
    """One group's history beside what one strategy would have moved: ``walked`` is the JSON of ``apportion replay``."""
    settings = "".join(f" {key}={value}" for key, value in walked.get("settings", {}).items())
    replays_of = {walked["assignor"] + settings: totals_of(walked)} if remembered.rebalances else {}
    group = build(observed.raw)
    return group_data(
        group, [], facts=facts(observed, group, [], remembered), history=history(remembered),
        replays=replays(remembered, replays_of),
    )  # fmt: skip


def with_switch(observed: Observed, switch: Switch, past: GroupHistory | None = None) -> dict[str, Any]:
    """One group with what a switch to the new protocol does to it."""
    drawn = of_observed(observed) if past is None else of_remembered(past, observed)
    return switched(drawn, switch)


def switched(drawn: Mapping[str, Any], switch: Switch) -> dict[str, Any]:
    """A group's data with what a switch does to it, and the answer in its row of the list."""
    return {**drawn, **switch_data(switch), "row": {**drawn["row"], "switch": switching.page_row(switch)}}


def switch_data(switch: Switch) -> dict[str, Any]:
    """What a switch to the new protocol does to a group, as one more field of its data."""
    return {
        "switch": {
            "online": switch.online.owner.tolist(),
            "fresh": switch.fresh.owner.tolist(),
            "advice": list(switch.advice),
            "traps": list(switch.traps),
            "history": None if switch.history is None else dict(switch.history),
        }
    }


def of_group(
    group: Group, observed: Observed, past: Past, names: Mapping[str, str] | None = None,
    times: GroupTime | None = None, now_ms: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One group with its history, its members called as ``history`` has it; its row tells of lag in time too."""
    replays_of = replay_totals(past)
    planned = [] if observed.kind in OTHERS else every_plan(group)
    drawn = group_data(
        group, planned, facts=facts(observed, group, planned, past, times, now_ms),
        history=history(past, names), replays=replays(past, replays_of),
    )  # fmt: skip
    drawn["history"]["commits"] = commits_in_lanes(past, drawn["history"]["rows"])
    return drawn


def facts(
    observed: Observed, group: Group, planned: Sequence[Plan], past: Past | None = None,
    times: GroupTime | None = None, now_ms: int | None = None, verdict: Verdict | None = None,
) -> dict[str, Any]:  # fmt: skip
    """State, strategy, a verdict with its reasons, and which strategy to take, where several were asked."""
    # What compare says: each strategy once, at its default settings.
    distinct = list({plan.assignor: plan for plan in reversed(planned)}.values())[::-1]
    compared = Comparison(group, distinct, {}, None, observed.kind, observed.protocol)
    advised = advice(compared) if len(distinct) > 1 else []
    seen = shown(observed, group)
    rebalanced_at = [rebalance.at for rebalance in past.rebalances] if past is not None else []
    verdict = verdict or judge(seen, Evidence.of(times, rebalanced_at=rebalanced_at, recorded=past is not None))
    over_time: dict[str, Any] = {} if times is None else pace(times.whole)
    if rebalanced_at:
        over_time["last_hour"] = in_last_hour(rebalanced_at, now_ms or max(rebalanced_at))
    behind = () if times is None else behind_by_topic(group, times.partitions)
    return {
        **told_of(observed, advised),
        "kind": observed.kind or "",
        "verdict": verdict.word,
        "why": verdict.why,
        "diagnosis": verdict.diagnosis.to_dict(),
        "listed": replace(judged(verdict, over_time), behind=behind),
        "roles": roles_data(observed.kind, observed.members),
        "seats": seen.members_data(),
    }


def history(remembered: Past, names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
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


def labels(remembered: Past) -> dict[str, str]:
    """Identity to how a person calls the member: its client id where no other member of a generation has it too."""
    return own_names(
        [
            [(None if seat.instance_id else seat.identity, seat.client_id) for seat in generation.members]
            for generation in remembered.folded.generations
        ]
    )


def replays(remembered: Past, replays_of: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What each strategy would have moved, rebalance by rebalance."""
    rows = []
    for name, moves in replays_of.items():
        skews = {key: moves[key] for key in ("skew_max", "skew_max_then")}
        rows.append({"assignor": name, "moves": where_they_end(remembered.rebalances, moves["by_offset"]), **skews})
    return rows


def moment(at_ms: int) -> str:
    """Milliseconds as ISO 8601 in UTC; "" for what no calendar holds, and for -1, Kafka's "no timestamp"."""
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
    """How a page calls a folder: by its own name, not by where it lies, and how far its records go."""
    newest = max(
        (rebalance["at"] or "" for group in groups for rebalance in group["history"]["rebalances"]), default=""
    )
    name = os.path.basename(os.path.abspath(path))
    return f"{name}, records up to {newest[:16].replace('T', ' ')} UTC" if newest else name


def title_of(groups: Sequence[Mapping[str, Any]]) -> str:
    """What a page is called where nobody says."""
    return str(groups[0]["group"]) if len(groups) == 1 else f"{len(groups)} consumer groups"
