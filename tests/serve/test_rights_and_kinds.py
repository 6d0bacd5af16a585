"""A server with nothing but the rights that its page lists, beside a group of the new protocol; and one with a past."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from apportion.cli import main
from apportion.demo import dump
from apportion.serve.collector import Collector
from apportion.serve.settings import ServerSettings
from apportion.sources.config import Connection
from apportion.sources.load_history import load_histories, next_offsets
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember

from .running import Serving, serving, until

TOPIC, GROUP = "watched", "of-the-new-protocol"
SECRETS = {"viewer": "viewer-hunter2", "narrow": "narrow-hunter3", "nobody": "nobody-hunter4", "some": "some-hunter5"}


@pytest.fixture(scope="module")
def guarded(jars: str) -> Iterator[Broker]:
    """A broker with logins and rights: viewer has those that the docs list, narrow lacks Read on __consumer_offsets,
    some may look at the cluster, at all topics and at one group, nobody at nothing."""
    properties = {
        "listeners+": "SASL_PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map+": "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    logins = [f"SCRAM-SHA-256=[name={name},password={secret}]" for name, secret in SECRETS.items()]
    args = [word for login in logins for word in ("--add-scram", login)]
    with Broker(properties=properties, format_args=args) as broker:
        broker.create_topic(TOPIC, 4)
        give_rights(broker)
        yield broker


def give_rights(broker: Broker) -> None:
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

    every = [
        (ACLOperation.DESCRIBE, ResourcePattern(kind, name))
        for kind, name in (
            (ResourceType.CLUSTER, "kafka-cluster"), (ResourceType.GROUP, "*"), (ResourceType.TOPIC, "*")
        )
    ]  # fmt: skip
    read = (ACLOperation.READ, ResourcePattern(ResourceType.TOPIC, "__consumer_offsets"))
    given = [("viewer", right) for right in (*every, read)] + [("narrow", right) for right in every]
    mine = (ACLOperation.DESCRIBE, ResourcePattern(ResourceType.GROUP, "mine"))
    given += [("some", right) for right in (*every, mine) if right[1] != ResourcePattern(ResourceType.GROUP, "*")]
    allow = ACLPermissionType.ALLOW
    with broker.admin() as admin:
        admin.create_acls([ACL(f"User:{user}", "*", operation, allow, what) for user, (operation, what) in given])


def login(folder: Path, user: str) -> str:
    path = folder / f"{user}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{user}" password="{SECRETS[user]}";\n'
    )
    return str(path)


@pytest.mark.broker
def test_the_rights_that_are_listed_suffice_and_a_missing_one_is_a_sentence(guarded: Broker, tmp_path: Path) -> None:
    address = f"127.0.0.1:{guarded.ports['port']}"
    members = [JavaMember(guarded.bootstrap, GROUP, [TOPIC], {"group.protocol": "consumer"}) for _ in range(2)]
    try:
        for user, tail in (("viewer", 1), ("narrow", 0)):
            options = ("--interval", "1", "--command-config", login(tmp_path, user))
            with serving(*options, bootstrap=address) as server:
                until(lambda server=server: server.ask("/readyz")[0] == 200)
                until(lambda server=server: server.value("apportion_group_members", group=GROUP) == 2)
                until(lambda s=server, tail=tail: s.value("apportion_tail_up") == tail)
                # Its members have what they are given, and the tail was asked for, some time after the first round.
                state = until(lambda s=server: settled(s.json(f"/api/v1/groups/{GROUP}")))
                assert (state["kind"], state["protocol"]) == ("consumer", "uniform")
                until(lambda s=server, t=tail: ("it needs the ACLs Describe and Read" in notes(s)) == (not t))
                assert ("Rebalances are seen at each round alone" in notes(server)) == (not tail)
                assert SECRETS[user] not in json.dumps(state)
                if user == "narrow":
                    members.pop().close()
                    until(lambda s=server: s.value("apportion_group_rebalances_total", group=GROUP, cause="leave"))
    finally:
        for member in members:
            member.close()


@pytest.mark.broker
def test_a_user_without_rights_is_not_told_that_there_is_nothing(
    guarded: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A broker leaves out what a user may not see, as it leaves out what is not there."""
    address, config = f"127.0.0.1:{guarded.ports['port']}", login(tmp_path, "nobody")
    assert main(["describe", "--bootstrap-server", address, "--command-config", config, "--all-groups"]) == 0
    assert "or this user may not see them (ACL Describe)" in capfd.readouterr().err
    with serving("--interval", "1", "--command-config", config, bootstrap=address) as server:
        until(lambda: "or this user may not see it (ACL Describe)" in notes(server))


def settled(state: dict[str, Any]) -> dict[str, Any] | None:
    """A group at rest whose members share all four partitions; None where it is not yet."""
    held = sorted(p for member in state["members"].values() for p in member.get("owned", {}).get(TOPIC, ()))
    return state if state["state"] == "Stable" and held == [0, 1, 2, 3] else None


def notes(server: Serving) -> str:
    """What the page says above everything."""
    return " ".join(server.json("/api/v1/groups")["notes"])


def test_a_past_that_somebody_kept_is_there_at_once_and_is_read_on_from_where_it_ends() -> None:
    histories = load_histories(dump())
    collector = Collector(ServerSettings(past=str(dump())), Connection("127.0.0.1:1", Properties()))
    compared = 0
    for name, history in histories.groups.items():
        past = collector._pasts[name].frozen()
        kept = [generation for generation in history.folded.generations if generation.kind in ("classic", "consumer")]
        if kept != history.folded.generations:
            continue
        assert past.folded.generations == kept[-60:], name
        assert [row.source_offset for row in past.rebalances] == [r.source_offset for r in history.rebalances][-60:]
        assert [row.moved for row in past.rebalances] == [row.moved for row in history.rebalances][-60:]
        compared += len(kept)
    assert compared > 50
    assert not any(past.causes or past.moved for past in collector._pasts.values()), "what was before is not counted"
    following = next_offsets(dump())
    assert following
    assert collector._tail is not None
    assert collector._tail._next == following


@pytest.mark.broker
def test_groups_that_a_user_may_not_look_at_are_named_and_the_others_shown(
    guarded: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A user with the right to describe the cluster is told the names of all groups, whatever it may see of each."""
    address, config = f"127.0.0.1:{guarded.ports['port']}", login(tmp_path, "some")
    for group in ("mine", "theirs"):
        with closing(KafkaConsumer(bootstrap_servers=guarded.bootstrap, group_id=group)) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            consumer.commit({TopicPartition(TOPIC, 0): OffsetAndMetadata(0, "", -1)})
    asked = ["describe", "--bootstrap-server", address, "--command-config", config]
    assert main([*asked, "--all-groups", "-o", "json"]) == 0
    out, err = capfd.readouterr()
    assert [group["group"] for group in json.loads(out)["groups"]] == ["mine"]
    assert "theirs" in err
    assert "(ACL Describe on the group)" in err
    assert main([*asked, "--group", "mine", "--group", "theirs"]) == 2
    assert "may not look at a group that was asked for" in capfd.readouterr().err
