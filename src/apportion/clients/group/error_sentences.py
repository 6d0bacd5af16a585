"""The meaning of a Kafka client's error, as one sentence for a person: which right is missing, and how it is given.

No sentence repeats a setting: credentials never get here.
"""

from __future__ import annotations

from typing import Final

_MISSING: Final = {
    "TopicAuthorizationFailedError": "no right to read or describe a topic{what}: an operator gives it with "
    "kafka-acls --add --allow-principal User:YOU --operation Read --topic TOPIC",
    "GroupAuthorizationFailedError": "no right to the consumer group{what}: an operator gives it with "
    "kafka-acls --add --allow-principal User:YOU --operation Read --group GROUP",
    "TransactionalIdAuthorizationFailedError": "no right to the transactional id{what}: an operator gives it with "
    "kafka-acls --add --allow-principal User:YOU --operation Write --operation Describe --transactional-id APPLICATION "
    "--resource-pattern-type prefixed",
    "ClusterAuthorizationFailedError": "no right to act on the whole cluster{what}: an operator gives it with "
    "kafka-acls --add --allow-principal User:YOU --operation Describe --cluster",
    "SaslAuthenticationFailedError": "the broker refused the login{what}: see user, password and mechanism",
    "AuthenticationFailedError": "the broker refused the login{what}: see user, password and mechanism",
    "UnknownTopicOrPartitionError": "a topic or partition does not exist{what}, or may not be seen",
    "NoBrokersAvailable": "no broker answered{what}: see the addresses and the security protocol",
    # kafka-python tries again after a refused login until its patience is over, and then tells of that alone.
    "KafkaTimeoutError": "the brokers did not answer in time, or refused the login{what}: see the client's own log",
}


def sentence(error: BaseException, subject: str = "") -> str:
    """One sentence about an error of a Kafka client, whichever client it is from.

    subject
        Whom or what it is about, such as ``topic clicks``.

    >>> sentence(KeyError("x"))
    "KeyError: 'x'"
    """
    about = f" ({subject})" if subject else ""
    for kind in type(error).__mro__:
        name = kind.__name__ if kind.__name__ in _MISSING else f"{kind.__name__}Error"
        if name in _MISSING:
            return _MISSING[name].format(what=about)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}{about}"
