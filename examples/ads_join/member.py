"""One member of the join: the numbers that it has, their state, and rows to the output topic."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from apportion.clients.kafka_python import assignor
from examples.ads_join.state import JoinState
from examples.running import tell, told_to_leave

TOPICS = ("clicks", "impressions")


class Member:
    """Joins what it is given; every number has its own state file."""

    def __init__(self, bootstrap: str, group: str, folder: Path) -> None:
        self.bootstrap, self.folder = bootstrap, folder
        self.states: dict[int, JoinState] = {}
        self.seen = -1
        self.rows = 0
        self.producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
        self.consumer = KafkaConsumer(
            *TOPICS,
            bootstrap_servers=bootstrap,
            group_id=group,
            client_id=folder.name,
            session_timeout_ms=2000,
            heartbeat_interval_ms=300,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor("sticky-stream-join")],
        )

    def turn(self) -> None:
        """Poll once; after a rebalance settle in first, and take the records on the next turn."""
        records = self.consumer.poll(timeout_ms=50, max_records=100)
        if self._rebalanced():
            self._settle_in()
            return
        touched = {pair.partition for pair in records}
        for pair, batch in sorted(records.items()):
            for record in batch:
                for row in self.states[pair.partition].take(record):
                    self._give(pair.partition, row)
        # Rows first, then the state that knows of them: a crash in between gives a row again at most, and the next
        # owner looks into the output before it gives any.
        self.producer.flush()
        for number in touched:
            self.states[number].keep()
        self._commit({pair: batch[-1].offset + 1 for pair, batch in records.items()})

    def close(self) -> None:
        """Leave in good order."""
        for state in self.states.values():
            state.close()
        self.consumer.close(autocommit=False)
        self.producer.close()

    def _rebalanced(self) -> bool:
        coordinator = self.consumer._coordinator
        generation = coordinator._generation.generation_id
        return generation != self.seen and generation >= 0 and not coordinator.rejoining

    def _settle_in(self) -> None:
        """Close what went, open what came, and read each number on from where its own state stands."""
        self.seen = self.consumer._coordinator._generation.generation_id
        pairs = sorted(self.consumer.assignment())
        numbers = {pair.partition for pair in pairs}
        for number in sorted(set(self.states) - numbers):
            self.states.pop(number).close()
        came = sorted(numbers - set(self.states))
        for number in came:
            self.states[number] = JoinState(self.folder / f"{number}.sqlite")
        self._learn_output(came)
        replays = sum(self._replays(pair) for pair in pairs if pair.partition in came)
        for pair in pairs:
            self.consumer.seek(pair, self.states[pair.partition].next_offset(pair.topic))
        tell("owns", numbers=sorted(numbers), came=came, replays=replays, generation=self.seen)

    def _replays(self, pair: Any) -> int:
        """Messages that the group had read already and that this member must read for its state."""
        committed = self.consumer.committed(pair) or 0
        return max(0, committed - self.states[pair.partition].next_offset(pair.topic))

    def _learn_output(self, numbers: list[int]) -> None:
        """Note the rows that earlier owners of these numbers gave out since this member's state was last kept."""
        reader = KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None, auto_offset_reset="earliest")
        pairs = [TopicPartition("joined", number) for number in numbers]
        reader.assign(pairs)
        ends = reader.end_offsets(pairs) if pairs else {}
        for pair in pairs:
            reader.seek(pair, self.states[pair.partition].next_offset("joined"))
        while any(reader.position(pair) < ends[pair] for pair in pairs):
            for pair, batch in reader.poll(timeout_ms=100, max_records=5000).items():
                for record in batch:
                    self.states[pair.partition].was_given(record)
        for number in numbers:
            self.states[number].keep()
        reader.close()

    def _give(self, number: int, row: dict[str, Any]) -> None:
        self.rows += 1
        self.producer.send("joined", json.dumps(row).encode(), key=row["click"].encode(), partition=number)

    def _commit(self, offsets: dict[Any, int]) -> None:
        """For whoever looks at the group's lag; the state has offsets of its own."""
        try:
            self.consumer.commit({pair: OffsetAndMetadata(offset, "", -1) for pair, offset in offsets.items()})
        except KafkaError as late:
            tell("late", why=type(late).__name__)


def main(bootstrap: str, group: str, folder: str) -> None:
    """Work until told to leave."""
    over = told_to_leave()
    member = Member(bootstrap, group, Path(folder))
    while not over.is_set():
        member.turn()
        time.sleep(0.01)
    member.close()
    tell("left", rows=member.rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
