"""A key's partition is the one that the producers of Java, kafka-python and librdkafka choose."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer
from kafka.partitioner.default import murmur2 as kafka_pythons

from apportion.errors import BadInput, UnknownName
from apportion.wire.partitioners import PARTITIONERS, murmur2, partition_of

KEYS = [b"", b"a", b"\xff\x00\xfe", *(random.Random(7).randbytes(n % 23) for n in range(300)), "schlüssel".encode()]


def test_murmur2_is_that_of_kafkas_own_test_and_of_kafka_python() -> None:
    """The numbers are those of Kafka's UtilsTest."""
    javas = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
             "a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
             "abc": 479470107}  # fmt: skip
    assert {text: murmur2(text.encode()) for text in javas} == {t: n & 0x7FFFFFFF for t, n in javas.items()}
    assert [murmur2(key) for key in KEYS] == [kafka_pythons(key) & 0x7FFFFFFF for key in KEYS]


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_a_key_is_where_librdkafkas_producer_puts_it(partitioner: str) -> None:
    """Its own cluster for tests takes the records; the partitioner is the one of every producer."""
    producer = Producer({"test.mock.num.brokers": 1, "partitioner": partitioner})
    went: dict[bytes | None, int | None] = {}
    keys = [key for key in KEYS if key or partitioner != "consistent_random"]
    for key in keys:
        producer.produce(
            "t", b"", key, on_delivery=lambda error, record: went.update({record.key(): record.partition()})
        )
    assert producer.flush(60) == 0
    partitions = len(producer.list_topics("t", 10).topics["t"].partitions)
    assert partitions > 1
    assert went == {key: partition_of(key, partitions, partitioner) for key in keys}


def test_a_key_that_goes_anywhere_and_an_unknown_partitioner_are_refused() -> None:
    with pytest.raises(BadInput, match="any partition"):
        partition_of(b"", 4, "consistent_random")
    with pytest.raises(UnknownName, match="partitioner"):
        partition_of(b"k", 4, "murmur3")
