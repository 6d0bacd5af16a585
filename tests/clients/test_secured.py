"""A cluster with TLS, logins and rights: all works over it, a missing right is a sentence, no secret gets out."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.examples import thorough

from apportion.clients.lag_feed import LagFeed, kafka_offsets
from apportion.clients.tasks import TaskRunner
from apportion.errors import BadInput, Unavailable
from apportion.tasks.topology import Subtopology, Topology
from apportion.testing.broker import Broker

from .groups import Members, new_name, owned, settle

pytestmark = pytest.mark.broker
SECRETS = {"ann": "ann-hunter2", "bob": "bob-hunter3"}
TOPIC, GROUP = "ledger", "book-keepers"


def openssl(folder: Path, *args: str) -> None:
    subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)


def certificates(folder: Path) -> None:
    """A CA of our own, and a certificate for 127.0.0.1 signed by it."""
    subject = ["-subj", "/CN=apportion-test-ca"]
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", *subject)
    request = ["-keyout", "broker.key", "-out", "broker.csr", "-subj", "/CN=127.0.0.1"]
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", *request)
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    ca = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"]
    openssl(folder, "x509", "-req", "-in", "broker.csr", *ca, "-out", "broker.pem", "-days", "2")
    whole = (folder / "broker.key").read_text() + (folder / "broker.pem").read_text() + (folder / "ca.pem").read_text()
    (folder / "keystore.pem").write_text(whole)


@pytest.fixture(scope="module")
def secured(jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Path]]:
    """A broker with a SASL_SSL listener; ann may read the topic in the group, bob the topic alone."""
    folder = tmp_path_factory.mktemp("tls")
    certificates(folder)
    scram = "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config"
    properties = {
        "listeners+": "SASL_SSL://127.0.0.1:{port}",
        "listener.security.protocol.map+": "SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        scram: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "keystore.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    logins = [f"SCRAM-SHA-256=[name={name},password={secret}]" for name, secret in SECRETS.items()]
    args = [word for login in logins for word in ("--add-scram", login)]
    with Broker(properties=properties, format_args=args) as broker:
        broker.create_topic(TOPIC, 4)
        with broker.admin() as admin:
            from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

            topic, group = ResourcePattern(ResourceType.TOPIC, TOPIC), ResourcePattern(ResourceType.GROUP, GROUP)
            given = [("ann", topic), ("ann", group), ("bob", topic)]
            allow = ACLPermissionType.ALLOW
            admin.create_acls([ACL(f"User:{user}", "*", ACLOperation.READ, allow, what) for user, what in given])
        yield broker, folder / "ca.pem"


def login(ca: Path, user: str, secret: str) -> dict[str, Any]:
    """kafka-python's and aiokafka's settings."""
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": user,
        "sasl_plain_password": secret,
        "ssl_cafile": str(ca),
    }


def librdkafka(ca: Path, user: str, secret: str) -> dict[str, Any]:
    """confluent-kafka's."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": secret,
        "ssl.ca.location": str(ca),
    }


def address(broker: Broker) -> str:
    return f"127.0.0.1:{broker.ports['port']}"


@pytest.mark.parametrize("client", [thorough("kafka-python"), "aiokafka", "confluent"])
def test_a_group_with_lag_works_over_tls_and_scram(secured: tuple[Broker, Path], client: str, tmp_path: Path):
    """Two members, each with a feed of its own over the same login; at log level DEBUG no secret is written."""
    broker, ca = secured
    settings = (librdkafka if client == "confluent" else login)(ca, "ann", SECRETS["ann"])
    admin = login(ca, "ann", SECRETS["ann"])
    with Members(broker, GROUP, [TOPIC], tmp_path) as group:
        more = {"bootstrap": address(broker), "consumer": settings, "admin": admin, "lag": True, "log_level": "DEBUG"}
        members = [group.python(client, "lag-aware", **more) for _ in range(2)]
        settle(members, {TOPIC: 4})
        assert [len(owned(member)[TOPIC]) for member in members] == [2, 2]
    for log in tmp_path.glob("*.log"):
        text = log.read_text()
        assert "DEBUG" in text
        assert SECRETS["ann"] not in text
        assert "lag is unknown" not in text


@pytest.mark.parametrize("client", ["kafka-python", thorough("aiokafka")])
def test_a_missing_right_to_the_group_is_one_sentence(secured: tuple[Broker, Path], client: str, tmp_path: Path):
    broker, ca = secured
    group_id = new_name("not-yours")
    with Members(broker, group_id, [TOPIC], tmp_path) as group:
        settings = login(ca, "bob", SECRETS["bob"])
        member = group.python(client, "sticky", bootstrap=address(broker), consumer=settings)
        until = time.monotonic() + 90
        while not (told := [e["why"] for e in member.of("error") if "no right" in e["why"]]):
            assert time.monotonic() < until, member.events
            time.sleep(0.1)
    assert f"no right to the consumer group (group {group_id}): an operator gives it with kafka-acls" in told[0]
    assert SECRETS["bob"] not in told[0]


@pytest.mark.parametrize(
    ("user", "secret", "wanted"),
    [
        ("bob", SECRETS["bob"], "no right to the consumer group"),
        ("ann", "wrong-hunter4", "the brokers did not answer in time, or refused the login"),
    ],
)
def test_a_feed_without_rights_says_so_in_one_sentence(
    secured: tuple[Broker, Path], user: str, secret: str, wanted: str, caplog: pytest.LogCaptureFixture
):
    """Neither the sentence nor any repr holds the password."""
    broker, ca = secured
    fetch = kafka_offsets(bootstrap_servers=address(broker), **login(ca, user, secret))
    feed = LagFeed(GROUP, fetch, topics=[TOPIC], deadline_s=120 if user == "bob" else 3)
    with caplog.at_level("DEBUG"):
        assert not feed.refresh()
    _, missing = feed.table([TOPIC])
    assert missing is not None
    assert missing.startswith(wanted)
    assert "\n" not in missing
    for text in (missing, caplog.text, repr(feed), repr(fetch)):
        assert secret not in text


def allow(broker: Broker, user: str, rights: list[tuple[str, str, str]]) -> None:
    """Give rights: (kind, name, operation); on transactional ids by what they begin with."""
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

    acls = []
    for kind, name, operation in rights:
        prefixed = ACLResourcePatternType.PREFIXED if kind == "TRANSACTIONAL_ID" else ACLResourcePatternType.LITERAL
        of = ResourcePattern(ResourceType[kind], name, prefixed)
        acls.append(ACL(f"User:{user}", "*", ACLOperation[operation], ACLPermissionType.ALLOW, of))
    with broker.admin() as admin:
        admin.create_acls(acls)


@pytest.mark.parametrize("guarantee", [thorough("at_least_once"), "exactly_once"])
def test_tasks_with_state_run_and_are_restored_over_tls_and_scram(
    secured: tuple[Broker, Path], tmp_path: Path, guarantee: Any
):
    """The group's consumer, the one that restores and the producer all log in, with the rights that the docs list."""
    broker, ca = secured
    source, changelog, output, name = (new_name(what) for what in ("source", "changelog", "output", "app"))
    broker.create_topic(source, 1)
    broker.create_topic(changelog, 1, cleanup_policy="compact")
    broker.create_topic(output, 1)
    rights = [("TOPIC", source, "READ"), ("GROUP", name, "READ"), ("TOPIC", output, "WRITE")]
    allow(broker, "bob", [*rights, ("TOPIC", changelog, "READ"), ("TOPIC", changelog, "WRITE")])
    topology = Topology.of(Subtopology((source,), changelog))

    def runner(folder: str) -> TaskRunner:
        return TaskRunner(
            topology,
            application=name,
            bootstrap_servers=address(broker),
            state_dir=tmp_path / folder,
            connection=login(ca, "bob", SECRETS["bob"]),
            guarantee=guarantee,
        )

    if guarantee == "exactly_once":
        with pytest.raises(Unavailable, match=rf"no right to the transactional id \({name}-.*--transactional-id"):
            runner("first")
        allow(broker, "bob", [("TRANSACTIONAL_ID", name, "WRITE"), ("TRANSACTIONAL_ID", name, "DESCRIBE")])
    for folder, known in (("first", None), ("second", b"1")):
        with runner(folder) as tasks:
            until = time.monotonic() + 90
            while not tasks.active:
                assert time.monotonic() < until
                tasks.poll()
            state = tasks.state(tasks.active[0])
            assert state.get(b"k") == known
            state.put(b"k", b"1")
            tasks.send(output, b"k", b"1")
            tasks.commit()


def test_a_login_for_one_client_of_a_task_runner_alone_is_refused(tmp_path: Path) -> None:
    """The others would try without, for as long as the broker lets them."""
    settings = login(tmp_path / "ca.pem", "ann", "ann-hunter2")
    with pytest.raises(BadInput, match=r"'security_protocol'.*needed it in connection") as refused:
        TaskRunner(
            Topology.of(Subtopology(("source",))),
            application="app",
            bootstrap_servers="127.0.0.1:1",
            state_dir=tmp_path,
            consumer=settings,
        )
    assert "hunter2" not in str(refused.value)


def test_describe_and_watch_work_over_tls_and_scram(secured: tuple[Broker, Path], tmp_path: Path):
    """The group as its members have it, by the properties file that Kafka's own tools take; no secret is printed."""
    broker, ca = secured
    login_module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{login_module} required username="ann" password="{SECRETS["ann"]}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
    }
    file, wrong = tmp_path / "ann.properties", tmp_path / "wrong.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    wrong.write_text(file.read_text().replace(SECRETS["ann"], "wrong-hunter4"))
    there = ["--bootstrap-server", address(broker), "--command-config"]
    with Members(broker, GROUP, [TOPIC], tmp_path) as group:
        config = {"bootstrap": address(broker), "consumer": login(ca, "ann", SECRETS["ann"])}
        members = [group.python("kafka-python", "sticky", **config) for _ in range(2)]
        settle(members, {TOPIC: 4})
        described = command_line("describe", *there, str(file), "--group", GROUP, "-o", "json")
        watched = command_line("watch", *there, str(file), "--group", GROUP, "--once")
        everything = command_line("describe", *there, str(file), "--all-groups", "-o", "json")
        refused = command_line("describe", *there, str(wrong), "--group", GROUP)
        mine = [owned(member) for member in members]
    for done in (described, watched, everything):
        waited = f"{address(broker)} has not answered yet: waiting for it\n"
        assert (done.returncode, done.stderr.replace(waited, "")) == (0, "")
        assert SECRETS["ann"] not in done.stdout
    (shown,) = json.loads(described.stdout)["groups"]
    by_name = {fields["client_id"]: fields["owned"] for fields in shown["members"].values()}
    assert [by_name[member.name] for member in members] == mine
    assert [one["group"] for one in json.loads(everything.stdout)["groups"]] == [GROUP]
    assert all(member.name in watched.stdout for member in members)
    assert "4 partitions" in watched.stdout
    assert (refused.returncode, refused.stdout) == (2, "")
    assert 1 <= refused.stderr.count("\n") <= 2, "maybe who is waited for, then the error"
    assert "wrong-hunter4" not in refused.stderr


def command_line(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "apportion", *words], capture_output=True, text=True, timeout=400, check=False
    )
