"""Governors left running: a round for each group every some seconds, and their carriers' heartbeats in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from apportion.errors import ApportionError, Unavailable
from apportion.governing.governor import Governed, Governor
from apportion.governing.rules_file import GroupRule
from apportion.inputs.cluster import Cluster, patiently
from apportion.inputs.group_descriptions import kind_of, reads

LOG: Final = logging.getLogger("apportion.governing")
TICK_S: Final = 0.5


def groups_of(cluster: Cluster, rules: Sequence[GroupRule]) -> dict[str, GroupRule]:
    """The groups that some rule names, each with the first that does; classic ones where it says ``convert``."""
    listed = patiently(cluster.bootstrap, cluster._admin.list_groups)
    kinds = {group["group_id"]: kind_of(group) for group in listed if reads(group)}
    first = {name: next((rule for rule in rules if rule.pattern.fullmatch(name)), None) for name in sorted(kinds)}
    takes = {name: rule for name, rule in first.items() if rule is not None}
    return {name: rule for name, rule in takes.items() if kinds[name] == "consumer" or rule.convert}


def govern(
    cluster: Cluster,
    chosen: Callable[[], Mapping[str, GroupRule]],
    key: bytes | None,
    interval_s: float,
    report: Callable[[str, Governed], None],
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Govern the chosen groups until ``until`` is true; carriers leave at the end, and the last plans stay in force.

    chosen
        Asked at each round, so that new groups are governed too.
    report
        Hears what each round of each group came to.
    """
    governors: dict[str, Governor] = {}
    due = 0.0
    try:
        while not until():
            if time.monotonic() >= due:
                due = time.monotonic() + interval_s
                rules = _tried(chosen, governors)
                for name, rule in rules.items():
                    governor = governors.setdefault(name, Governor(cluster, name, rule, key))
                    _round(governor, report)
            for governor in governors.values():
                _beat(governor)
            time.sleep(min(TICK_S, max(0.0, due - time.monotonic())))
    finally:
        for governor in governors.values():
            governor.release()


def _tried(chosen: Callable[[], Mapping[str, GroupRule]], governors: Mapping[str, Governor]) -> Mapping[str, GroupRule]:
    try:
        return chosen()
    except Unavailable as error:
        LOG.warning("the groups are not known just now: %s", error)
        return {name: governor.rule for name, governor in governors.items()}


def _round(governor: Governor, report: Callable[[str, Governed], None]) -> None:
    """One round; what goes wrong with one group is said, and the others go on."""
    try:
        report(governor.group, governor.round())
    except ApportionError as error:
        report(governor.group, Governed(time.time(), "failed", sentences=(str(error),)))


def _beat(governor: Governor) -> None:
    try:
        governor.beat()
    except ApportionError as error:
        LOG.warning("%s: a heartbeat failed: %s", governor.group, error)
