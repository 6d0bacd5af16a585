"""The script: every kind of member and every kind of trouble, one function a group, its docstring says what happens.

A function's keyword ``group`` is the name of the group. All of them play at the same time, a few at once; members still
open at the end stay until Kafka's tools have been asked about them.
"""

from __future__ import annotations

from collections.abc import Callable

from apportion.testing.peers import JavaMember
from tools.recording.stage import LOAD, Member, Stage

CLICKS, SHOP = ["clicks", "impressions"], ["orders", "payments"]


def come_and_go(stage: Stage, group: str, topics: list[str], strategy: str, share: float) -> None:
    """Three join one after the other, the second leaves, a fourth comes; all read on in between."""
    crew: list[Member] = []
    for number in range(3):
        crew.append(stage.java(group, f"{group}-{number}", topics, strategy))
        stage.settle(group, *crew)
        everyone_reads(stage, crew, share * (number + 1) / 5)
    crew.pop(1).leave()
    stage.settle(group, *crew)
    everyone_reads(stage, crew, share * 0.8)
    crew.append(stage.java(group, f"{group}-3", topics, strategy))
    stage.settle(group, *crew)
    everyone_reads(stage, crew, share)


def everyone_reads(stage: Stage, crew: list[Member], share: float) -> None:
    """All commit a share of what they hold."""
    for member in crew:
        stage.read(member, share)


def ads(stage: Stage, group: str = "ads-range") -> None:
    """Java's range on two topics that line up."""
    come_and_go(stage, group, CLICKS, "range", 0.9)


def billing(stage: Stage, group: str = "billing-roundrobin") -> None:
    """Java's roundrobin."""
    come_and_go(stage, group, SHOP, "roundrobin", 0.97)


def search(stage: Stage, group: str = "search-sticky") -> None:
    """Java's sticky, far behind on the hot partition."""
    come_and_go(stage, group, ["clicks"], "sticky", 0.4)


def feed(stage: Stage, group: str = "feed-cooperative") -> None:
    """Java's cooperative-sticky: each change takes two generations."""
    come_and_go(stage, group, CLICKS, "cooperative-sticky", 0.7)


def profiles(stage: Stage, group: str = "profiles-kip848") -> None:
    """KIP-848: three join, one leaves, one with another subscription comes."""
    crew: list[Member] = []
    for number in range(3):
        crew.append(stage.java(group, f"{group}-{number}", CLICKS, group_protocol="consumer"))
        stage.settle(group, *crew)
        everyone_reads(stage, crew, 0.2 * (number + 1))
    crew.pop(0).leave()
    stage.settle(group, *crew)
    crew.append(stage.java(group, f"{group}-3", ["clicks", "orders"], group_protocol="consumer"))
    stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.8)


def routes(stage: Stage, group: str = "routes-kip848-regex") -> None:
    """KIP-848 with the range assignor, a regular expression, and static members of which one restarts."""
    how = {"group_protocol": "consumer", "group_remote_assignor": "range", "pattern": "orders|payments"}
    crew: list[Member] = []
    for number in range(2):
        crew.append(stage.java(group, f"{group}-{number}", [], group_instance_id=f"route-{number}", **how))
    stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.5)
    crew.pop(0).leave()
    crew.insert(0, stage.java(group, f"{group}-0-again", [], group_instance_id="route-0", **how))
    stage.settle(group, *crew, same=True)
    everyone_reads(stage, crew, 0.85)


def reports(stage: Stage, group: str = "reports-kafka-python") -> None:
    """kafka-python's range: two join, one leaves, one comes back."""
    python_crew(stage, group, stage.kafka_python, 0.95)


def mails(stage: Stage, group: str = "mails-aiokafka") -> None:
    """aiokafka's roundrobin: two join, one leaves, one comes back."""
    python_crew(stage, group, stage.aiokafka, 0.6)


def python_crew(stage: Stage, group: str, join: Callable[[str, str, list[str]], Member], share: float) -> None:
    """Two join, one leaves, another comes."""
    crew = [join(group, f"{group}-0", ["emails", "returns"])]
    stage.settle(group, *crew)
    crew.append(join(group, f"{group}-1", ["emails", "returns"]))
    stage.settle(group, *crew)
    everyone_reads(stage, crew, share / 2)
    crew.pop(0).leave()
    stage.settle(group, *crew)
    crew.append(join(group, f"{group}-2", ["emails", "returns"]))
    stage.settle(group, *crew)
    everyone_reads(stage, crew, share)


def stock(stage: Stage, group: str = "stock-static") -> None:
    """Static members: one restarts within its session, which costs no generation and no move."""
    crew: list[Member] = []
    for number in range(3):
        name = f"{group}-{number}"
        crew.append(stage.java(group, name, ["orders"], "sticky", group_instance_id=f"stock-{number}"))
        stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.6)
    crew[1].leave()
    crew[1] = stage.java(group, f"{group}-1-again", ["orders"], "sticky", group_instance_id="stock-1")
    stage.settle(group, *crew, same=True)
    everyone_reads(stage, crew, 0.99)


def prices(stage: Stage, group: str = "prices-crash") -> None:
    """One of three dies of kill -9 and is missed when its session is over."""
    crew: list[JavaMember] = [
        stage.java(group, f"{group}-{number}", ["impressions"], "range", session_timeout_ms=4000) for number in range(3)
    ]
    stage.settle(group, *crew)
    everyone_reads(stage, list(crew), 0.5)
    dead = crew.pop(0)
    dead.kill()
    stage.settle(group, *crew)
    everyone_reads(stage, list(crew), 0.75)


def growing(stage: Stage, group: str = "inventory-grows") -> None:
    """The topic grows from four to eight partitions under the group's feet."""
    crew: list[Member] = [
        stage.java(group, f"{group}-{number}", ["inventory"], "cooperative-sticky") for number in range(2)
    ]
    stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.8)
    stage.cluster.grow_topic("inventory", 8)
    stage.settle(group, *crew)
    stage.fill({"inventory": [0, 0, 0, 0, 800, 700, 900, 600]})
    everyone_reads(stage, crew, 0.9)


def tangled(stage: Stage, group: str = "tangled-wants") -> None:
    """Unequal subscriptions under sticky; in the end one wants other topics than before."""
    wants = [["clicks"], ["clicks", "orders"], ["orders", "payments"], ["payments", "emails", "clicks"]]
    crew: list[JavaMember] = []
    for number, topics in enumerate(wants):
        crew.append(stage.java(group, f"{group}-{number}", topics, "sticky"))
        stage.settle(group, *crew)
    everyone_reads(stage, list(crew), 0.5)
    crew[3].subscribe(["payments", "clicks"])  # its commits on emails stay behind, unsubscribed
    stage.settle(group, *crew)
    everyone_reads(stage, list(crew), 0.65)


def ledger(stage: Stage, group: str = "ledger-transactions") -> None:
    """Offsets committed in transactions: one that commits, one that aborts, one that commits again."""
    member = stage.java(group, f"{group}-0", ["payments"], "range")
    stage.settle(group, member)
    stage.read(member, 0.3, transaction="commit")
    stage.read(member, 0.99, transaction="abort")
    stage.read(member, 0.6, transaction="commit")


def export(stage: Stage, group: str = "export-simple") -> None:
    """A simple consumer, which only commits: with 127 and 128 bytes of metadata, and once beyond the end."""
    member = stage.java(group, f"{group}-0", [], assign={"emails": [0, 1, 2], "returns": [0]})
    member.commit({"emails": {0: 100}}, metadata="m" * 127)
    member.commit({"emails": {1: 2000}}, metadata="é" * 64)
    member.commit({"emails": {2: 9000}}, metadata="", leader_epoch=0)
    member.commit({"returns": {0: 99999}}, metadata="ahead of the end")
    member.leave()


def gone(stage: Stage, group: str = "gone-group") -> None:
    """A group that reads, empties and is deleted."""
    crew: list[Member] = [stage.java(group, f"{group}-0", ["returns"], "range")]
    stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.5)
    crew[0].leave()
    with stage.cluster.admin() as admin:
        admin.delete_groups([group])


def gone_kip848(stage: Stage, group: str = "gone-kip848") -> None:
    """A KIP-848 group that is deleted: tombstones of every key type it had."""
    member = stage.java(group, f"{group}-0", ["returns"], group_protocol="consumer")
    stage.settle(group, member)
    stage.read(member, 0.5)
    member.leave()
    with stage.cluster.admin() as admin:
        admin.delete_groups([group])


def shared(stage: Stage, group: str = "tickets-share") -> None:
    """A share group: its records are of other key types, which nobody may stumble over."""
    stage.share(group, "returns")


def connectors(stage: Stage, group: str = "connect-cluster") -> None:
    """A worker of Kafka Connect: a classic group under another protocol type."""
    stage.connect(group)


def legacy(stage: Stage, group: str = "legacy-reader") -> None:
    """One of its two topics is deleted while it reads."""
    crew: list[Member] = [
        stage.java(group, f"{group}-{number}", ["legacy", "emails"], "roundrobin") for number in range(2)
    ]
    stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.9)
    stage.cluster.delete_topic("legacy")
    stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.95)


def abroad(stage: Stage, group: str = "заказы-注文-ödeme") -> None:
    """A group whose name is outside ASCII, and whose members read for real: their commits carry leader epochs."""
    crew: list[JavaMember] = [
        stage.java(group, f"orders-{number}", ["returns", "orders"], "range", read=True) for number in range(2)
    ]
    stage.settle(group, *crew)
    for member in crew:
        member.commit()


def near(stage: Stage, group: str = "near-racks") -> None:
    """Members in three racks, replicas in two of them, range: it serves nearby where both fit."""
    crew: list[Member] = []
    for number, rack in enumerate("abc"):
        crew.append(stage.java(group, f"{group}-{rack}", ["impressions"], "range", client_rack=rack))
        stage.settle(group, *crew)
        everyone_reads(stage, crew, 0.3 * (number + 1))


def nightly(stage: Stage, group: str = "nightly-batch") -> None:
    """A group that has read a part and gone home."""
    crew: list[Member] = [stage.java(group, f"{group}-{number}", SHOP, "cooperative-sticky") for number in range(2)]
    stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.35)
    for member in crew:
        member.leave()


def storm(stage: Stage, group: str = "fraud-storm") -> None:
    """Members come and go in quick succession, sticky forgets nothing."""
    crew: list[Member] = [stage.java(group, f"{group}-{number}", ["clicks"], "sticky") for number in range(2)]
    stage.settle(group, *crew)
    for number in range(2, 5):
        crew.append(stage.java(group, f"{group}-{number}", ["clicks"], "sticky"))
        stage.settle(group, *crew)
        everyone_reads(stage, crew, 0.1 * number)
        crew.pop(0).leave()
        stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.55)


def upgraded(stage: Stage, group: str = "upgraded-live") -> None:
    """A classic group that a KIP-848 member joins: it becomes a consumer group under way."""
    crew: list[Member] = [
        stage.java(group, f"{group}-{number}", ["returns", "emails"], "cooperative-sticky") for number in range(2)
    ]
    stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.4)
    crew.append(stage.java(group, f"{group}-2", ["returns", "emails"], group_protocol="consumer"))
    stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.7)


def behind(stage: Stage, group: str = "archive-behind") -> None:
    """A group that retention overtook: what it wants to read next is gone."""
    crew: list[Member] = [stage.java(group, f"{group}-0", ["returns-archive"], "range")]
    stage.settle(group, *crew)
    everyone_reads(stage, crew, 0.1)
    crew[0].leave()
    from kafka import TopicPartition

    with stage.cluster.admin() as admin:
        admin.delete_records({TopicPartition("returns-archive", 0): LOAD["returns-archive"][0] // 2})


# The longest first, so that all end at about the same time.
SCRIPT: tuple[Callable[[Stage], None], ...] = (
    storm, feed, tangled, profiles, ads, billing, search, upgraded, prices, growing, stock, routes, legacy, near,
    reports, mails, abroad, nightly, ledger, export, gone, behind,
    gone_kip848, shared, connectors,
)  # fmt: skip
