"""A governor over TLS with a login that has the least rights: those that the page lists, and none fewer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from tests.clients.test_secured import SECRETS, address, certificates, librdkafka

from apportion.assignors import find
from apportion.errors import Unavailable
from apportion.governing.governor import without_class
from apportion.governing.looking import Selection
from apportion.governing.rules_file import GroupRule
from apportion.governing.service import Governing
from apportion.sources.cluster import Cluster, connect
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker

from .conftest import WITH_CLASS
from .members import Governor, Member, until

pytestmark = pytest.mark.broker

TOPIC, GROUP = "ledger", "book-keepers"
CLUSTER = "kafka-cluster"
LEAST = (
    (ResourceType.CLUSTER, CLUSTER, ACLOperation.DESCRIBE_CONFIGS),
    (ResourceType.GROUP, GROUP, ACLOperation.READ),
    (ResourceType.TOPIC, TOPIC, ACLOperation.DESCRIBE),
)


@pytest.fixture(scope="module")
def secured(broker_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Path]]:
    """A broker with the class and a SASL_SSL listener; ann is a member, bob the governor, who has no right yet."""
    folder = tmp_path_factory.mktemp("tls")
    certificates(folder)
    properties = {
        **WITH_CLASS,
        "listeners+": "SASL_SSL://127.0.0.1:{port}",
        "listener.security.protocol.map+": "SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "keystore.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    logins = [f"SCRAM-SHA-256=[name={name},password={secret}]" for name, secret in SECRETS.items()]
    args = [word for login in logins for word in ("--add-scram", login)]
    with Broker(properties=properties, format_args=args, class_path=[broker_jar]) as broker:
        broker.create_topic(TOPIC, 4)
        rights(broker, "ann", *[(kind, name, ACLOperation.READ) for kind, name, _ in LEAST[1:]])
        yield broker, folder / "ca.pem"


def rights(broker: Broker, user: str, *given: tuple[ResourceType, str, ACLOperation]) -> None:
    """Let a user do these."""
    allow = ACLPermissionType.ALLOW
    with broker.admin() as admin:
        admin.create_acls([ACL(f"User:{user}", "*", right, allow, ResourcePattern(k, of)) for k, of, right in given])


def test_the_least_rights_suffice_and_without_one_of_them_it_is_said_what_is_missing(
    secured: tuple[Broker, Path], caplog: pytest.LogCaptureFixture
) -> None:
    broker, ca = secured
    member = Member(broker, GROUP, "m", [TOPIC], bootstrap=address(broker), **librdkafka(ca, "ann", SECRETS["ann"]))
    assert until(lambda: len(member.held) == 4)
    jaas = f'x.ScramLoginModule required username="bob" password="{SECRETS["bob"]}";'
    login = Properties(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": jaas,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(ca),
        }
    )
    rule = GroupRule(re.compile(GROUP), find("failover"))
    wanted: list[str] = []
    for missing in range(len(LEAST) + 1):
        with connect(address(broker), login) as cluster:
            governor = Governor(cluster, GROUP, rule, login=login)

            def published(cluster: Cluster = cluster, governor: Governor = governor) -> bool:
                try:
                    lacking = without_class(cluster)
                    wanted.append(governor.round().outcome if not lacking else str(lacking))
                except Unavailable as error:
                    wanted.append(str(error))
                return wanted[-1] == "published"

            if missing < len(LEAST):
                assert not published(), missing
                rights(broker, "bob", LEAST[missing])
            else:
                assert until(published), wanted  # once the broker knows of the last right
                everything = Governing(cluster, cluster, Selection((rule,)))
                assert everything.groups() == [GROUP], "--all-groups sees it with the same rights"
                everything.close()
                assert "it takes every group without a governor" in governor.trouble, "it may not see other governors"
            governor.release()
    assert "DescribeConfigs" in wanted[0]
    assert all(SECRETS["bob"] not in text for text in (*wanted, caplog.text))
    member.close()
