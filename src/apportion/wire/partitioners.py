"""The partition that a producer chooses for a key, by the hash of its client.

Java's clients, kafka-python, aiokafka and franz-go use ``murmur2``; librdkafka (confluent-kafka and others) uses
``consistent_random`` unless its setting ``partitioner`` names another one. Sources: Apache Kafka,
``BuiltInPartitioner.partitionForKey`` and ``Utils.murmur2``; librdkafka, ``rdmurmur2.c``, ``rdfnv1a.c``, ``rdcrc32.c``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from zlib import crc32

from apportion.errors import BadInput, UnknownName

_LOW_32: Final = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int, partitioner: str = "murmur2") -> int:
    """The partition, from 0 to ``partitions - 1``.

    >>> partition_of(b"user-17", 6), partition_of(b"user-17", 6, "consistent_random")
    (0, 1)

    Raises
        UnknownName: no partitioner of that name. BadInput: an empty key, which ``consistent_random`` sends anywhere.
    """
    if partitioner not in PARTITIONERS:
        raise UnknownName("partitioner", partitioner, list(PARTITIONERS))
    if not key and partitioner == "consistent_random":
        raise BadInput("key", "an empty key, which consistent_random sends to any partition", "a key")
    return PARTITIONERS[partitioner](key) % partitions


def murmur2(key: bytes) -> int:
    """Kafka's hash of bytes, without its sign.

    >>> murmur2(b"21") == -973932308 & 0x7FFFFFFF  # Kafka, UtilsTest.testMurmur2
    True
    """
    mix = 0x5BD1E995
    h = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * mix & _LOW_32
        h = (h * mix & _LOW_32) ^ ((k ^ k >> 24) * mix & _LOW_32)
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * mix & _LOW_32
    h = (h ^ h >> 13) * mix & _LOW_32
    return (h ^ h >> 15) & 0x7FFFFFFF


def _fnv1a(key: bytes) -> int:
    h = 0x811C9DC5
    for byte in key:
        h = (h ^ byte) * 0x01000193 & _LOW_32
    return min(h, 2**32 - h)  # the absolute value of a signed number, as Sarama has it


PARTITIONERS: Final[Mapping[str, Callable[[bytes], int]]] = {
    "murmur2": murmur2,
    "murmur2_random": murmur2,
    "consistent": crc32,
    "consistent_random": crc32,
    "fnv1a": _fnv1a,
    "fnv1a_random": _fnv1a,
}
"""Java's, and librdkafka's under its own names; ``_random`` differs for records without a key alone."""
