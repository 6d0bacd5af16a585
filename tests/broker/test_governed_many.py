"""Each way in which somebody got past a governor once, among many groups that three governors share.

What the rows of ``test_governed_rows`` show of one group and one governor holds here, too, and no other group notices.
The members are bare heartbeats. One of the governors has a clock that is an hour behind, and outlives the others.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.sources.cluster import connect
from apportion.testing.broker import Broker
from apportion.wire import plan_text
from apportion.wire.plan_text import RELEASE, GovernedPlan, MemberKey

from .members import RawMember, until
from .test_governed_rows import KEY, PACE, Command, carrying
from .test_governed_sharing import PATIENCE_S, RULES, SESSION_MS, UNIFORM, Scene, nothing_moved

# One group at a time goes through this in test_governed_rows.py, three governors in test_governed_sharing.py.
pytestmark = [pytest.mark.broker, pytest.mark.thorough]

GROUPS = [f"share-{n:02d}" for n in range(24)]
THIEF, TWIN, REPLAYED, EXPRESSION, BEHIND, RELEASED, REFUSED = GROUPS[:7]
TOPIC = "t"


class Many(Scene):
    """24 failover groups, and what is done to some of them."""

    key: bytes | None = None

    def pair(self, group: str) -> tuple[RawMember, RawMember]:
        first, standby = sorted((m for m in self.crowd.members if m.group == group), key=_instance)[-2:]
        return first, standby

    def held(self, group: str) -> tuple[int, int]:
        first, standby = self.pair(group)
        return len(first.given), len(standby.given)

    def all_follow(self) -> bool:
        return all(self.held(group) == (12, 0) for group in GROUPS)

    def replace(self, group: str, place: int, **fields: object) -> None:
        """Have a member of a group leave, and another one come."""
        member = self.pair(group)[place]
        self.leave(member)
        other = RawMember(self.broker, group, topics=[TOPIC], instance_id=member.fields["instance_id"])
        other.fields |= fields
        self.beat(other)

    def beat(self, member: RawMember) -> None:
        self.crowd.members.append(member)
        self.crowd.beat(member)

    def leave(self, member: RawMember) -> None:
        self.crowd.members.remove(member)
        self.crowd.thread_of.pop(member).join(PATIENCE_S)
        member.leave()

    def plan_for_standby(self, group: str) -> GovernedPlan:
        with connect(self.broker.bootstrap) as cluster:
            topic_id = cluster.partitions([TOPIC])[0].topic_id or ""
        keys = tuple(MemberKey(m.member_id, m.fields["instance_id"]) for m in self.pair(group))
        return GovernedPlan(10**17, 0, keys, (), {plan_text.topic_id(topic_id): [1] * 12})


@pytest.fixture(params=["plain", "keyed"])
def many(request: pytest.FixtureRequest, broker_jar: Path, tmp_path: Path) -> Iterator[Many]:
    properties, more = {**PACE, "group.consumer.session.timeout.ms": str(SESSION_MS)}, tuple[str, ...]()
    if request.param == "keyed":
        (tmp_path / "key").write_text(KEY)
        properties["apportion.plan.key.file"] = str(tmp_path / "key")
        more = ("--key-file", str(tmp_path / "key"))
    with Broker(class_path=[broker_jar], properties=properties) as broker:
        broker.create_topic(TOPIC, 12)
        scene = Many(broker, tmp_path, GROUPS, *more)
        scene.key = KEY.encode() if more else None
        assert until(lambda: all(UNIFORM in targets for targets in scene.targets().values()), PATIENCE_S)
        yield scene
        for command in scene.governors:
            command.end(signal.SIGKILL)
        scene.crowd.close()


def test_nobody_gets_past_three_governors_in_any_of_many_groups(many: Many) -> None:
    for behind_s in (0, 0, 3600):
        many.govern(behind_s=behind_s)
    assert many.shared(8, 8, 8), many.words()
    assert until(many.all_follow, PATIENCE_S), many.words()
    guests = [_replay(many)] if many.key else [_steal(many), *_twins(many)]
    many.replace(EXPRESSION, 0, subscribed_topic_names=[], subscribed_topic_regex="^t$")
    refused = _release(many, REFUSED)
    assert refused.process.wait(PATIENCE_S) == 3, refused.text
    assert f"{REFUSED}: not released: apportion-governor (apportion-governor-" in refused.text
    assert until(many.all_follow, PATIENCE_S), many.words()
    for guest in guests:
        (many.leave if guest in many.crowd.members else RawMember.leave)(guest)

    computed = {group: len(targets) for group, targets in many.targets().items()}
    many.broker.restart()  # nothing changes; the class is made to hear the plans, and then a governor dies
    assert until(
        lambda: all(len(targets) > computed[group] for group, targets in many.targets().items()), PATIENCE_S
    ), many.words()
    many.governors[0].end(signal.SIGKILL)
    assert many.shared(12, 12), many.words()
    many.governors[1].end(signal.SIGKILL)
    assert many.shared(24), many.words()
    many.replace(BEHIND, 0)
    assert until(many.all_follow, PATIENCE_S), "by plans of a governor whose clock is an hour behind"

    many.leave(many.pair(RELEASED)[1])
    assert many.governors[2].end() == 0, many.governors[2].text
    late = RawMember(many.broker, RELEASED, topics=[TOPIC], instance_id="pod-3")
    many.beat(late)
    released = _release(many, RELEASED)
    assert released.process.wait(PATIENCE_S) == 0, released.text
    assert until(lambda: many.held(RELEASED) == (6, 6), PATIENCE_S), released.text

    targets = many.targets()
    for group in set(GROUPS) - {THIEF, RELEASED}:  # there something else was right for a moment
        assert nothing_moved(targets[group]), (group, targets[group])


def _instance(member: RawMember) -> str:
    """Carriers first, then ``pod-10``, then the standby."""
    return str(member.fields["instance_id"])


def _steal(many: Many) -> RawMember:
    """A carrier of somebody else with a plan of a very high number: it is named, and overtaken."""
    thief = carrying(many.broker, many.plan_for_standby(THIEF), THIEF, "apportion-governor-2")
    many.beat(thief)
    assert until(lambda: any(f"carries plan {10**17}" in c.text for c in many.governors), PATIENCE_S), many.words()
    return thief


def _twins(many: Many) -> list[RawMember]:
    """Another group with the victim's member ids, and a carrier: there its plan is followed."""
    own = [RawMember(many.broker, f"own-{TWIN}", m.member_id, [TOPIC], _instance(m)) for m in many.pair(TWIN)]
    own.append(carrying(many.broker, many.plan_for_standby(TWIN), f"own-{TWIN}", "apportion-governor"))

    def followed() -> bool:
        for member in own:
            member.beat()
        return [len(member.given) for member in own] == [0, 12, 0]

    assert until(followed, PATIENCE_S)
    return own


def _replay(many: Many) -> RawMember:
    """A signed release of another group."""
    other = GovernedPlan(10**17, RELEASE, (MemberKey("somebody"), MemberKey("of another group")), (), {})
    return carrying(many.broker, other, REPLAYED, "replayed", many.key)


def _release(many: Many, group: str) -> Command:
    return Command(many.broker, many.folder, "--group", group, "--release", *many.more, rules=RULES)
