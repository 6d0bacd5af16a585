"""The meaning of a ``GroupConsumer``'s settings, librdkafka's, for the kafka-python member of its group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apportion.errors import BadInput

NEEDS_CLASSIC: Final = (
    "group.protocol=classic, which the strategies need: by the new protocol (KIP-848) the broker assigns, and no "
    "client has a strategy there. It would also refuse such a member in a group whose strategy sends user data, of "
    "which librdkafka says no more than 'The group id does not exist'. For the broker's own assignors take "
    "confluent_kafka.Consumer itself, in a group of its own"
)
_SAME: Final = {
    "metadata.broker.list": "bootstrap_servers",
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "group.id": "group_id",
    "group.instance.id": "group_instance_id",
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "auto.commit.interval.ms": "auto_commit_interval_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}
"""librdkafka's setting to kafka-python's."""
_LOGIN: Final = ("ssl.", "sasl.", "oauth", "enable.ssl.", "enable.sasl.")
"""How librdkafka's settings of TLS and logins begin."""
_HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
_NOT_FOLLOWED: Final = {
    "partition.assignment.strategy": "the strategy as the third argument, GroupConsumer(config, topics, strategy)",
    "group.remote.assignor": "the strategy as the third argument, GroupConsumer(config, topics, strategy)",
    "enable.auto.offset.store": "enable.auto.commit=false, and commit() when the records are done: there is no "
    "store_offsets(), and what poll() gave out counts as done at the next call",
    "on_commit": "commit(), which raises what the broker refuses",
}
"""librdkafka's settings that mean nothing here, and what to write instead."""
_BOOTSTRAP: Final = ("bootstrap.servers", "metadata.broker.list")
_BOOLS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
RESETS: Final = {"earliest": "earliest", "smallest": "earliest", "beginning": "earliest", "error": "none"}


def rack_of(config: Mapping[str, Any]) -> str | None:
    """The rack in librdkafka's settings; an empty one is none, as there."""
    return str(config.get("client.rack") or "") or None


def member_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """kafka-python's settings for the member, from librdkafka's.

    Raises
        BadInput without an address; for a setting that would not be followed; and for one of TLS or logins without a
        counterpart: without it the member would look for the brokers in another way than the fetching client, and find
        none.
    """
    if not any(config.get(name) for name in _BOOTSTRAP):
        raise BadInput("config", "no 'bootstrap.servers'", "the brokers' addresses, such as localhost:9092")
    for name in _NOT_FOLLOWED.keys() & config.keys():
        raise BadInput(f"config[{name!r}]", f"{config[name]!r}, which is not followed", _NOT_FOLLOWED[name])
    both = [name for name in _SAME if name.startswith(_LOGIN)] + [_HOST_CHECK]
    if alone := sorted(name for name in config if name.startswith(_LOGIN) and name not in both):
        needed = "settings that the group's member, a kafka-python consumer, has too: "
        raise BadInput("config", ", ".join(alone), needed + ", ".join(both))
    settings = {theirs: _value(config, ours) for ours, theirs in _SAME.items() if ours in config}
    settings["bootstrap_servers"] = str(settings["bootstrap_servers"]).split(",")
    if "security_protocol" in settings:
        settings["security_protocol"] = str(settings["security_protocol"]).upper()
    if str(config.get(_HOST_CHECK) or "").lower() == "none":
        settings["ssl_check_hostname"] = False
    auto = _BOOLS.get(str(config.get("enable.auto.commit", True)).lower())
    if auto is None:
        raise BadInput("config['enable.auto.commit']", repr(config["enable.auto.commit"]), "true or false")
    # librdkafka's default is the other one: without it the member would begin behind an open transaction.
    isolation = str(config.get("isolation.level", "read_committed"))
    return {**settings, "enable_auto_commit": auto, "isolation_level": isolation}


def _value(config: Mapping[str, Any], name: str) -> Any:
    try:
        return int(config[name]) if name.endswith(".ms") else config[name]
    except (TypeError, ValueError):
        raise BadInput(f"config[{name!r}]", repr(config[name]), "a number of milliseconds") from None
