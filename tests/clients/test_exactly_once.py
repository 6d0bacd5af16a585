"""Exactly once on a real broker: what tasks read, change and send counts together, whatever befalls their processes."""

from __future__ import annotations

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CommitFailedError, KafkaTimeoutError, MessageSizeTooLargeError
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata
from tests.support.examples import thorough

from apportion.clients.runtime.restore import EPOCH
from apportion.clients.runtime.stores import SqliteStore
from apportion.clients.tasks import TaskRunner
from apportion.errors import BadInput, Unavailable
from apportion.server_side.java_hash import string_hash
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Task, Topology
from apportion.testing.broker import Broker, BrokerCluster

from .groups import new_name
from .test_tasks_faults import coordinated_by_second, led_by_second, partition_of_commits
from .test_tasks_live import QUICK

pytestmark = pytest.mark.broker


def delivery_of(runner: TaskRunner) -> Any:
    """Its end of the commit protocol, to break it."""
    return runner._delivery


class WordCounts:
    """An application that counts words and sends each new count to a topic; runners of it in one thread."""

    def __init__(self, broker: Broker | BrokerCluster, folder: Path, partitions: int = 2, replication: int = 1) -> None:
        self.broker, self.folder, self.partitions = broker, folder, partitions
        self.words, self.changelog, self.counts = new_name("words"), new_name("changelog"), new_name("counts")
        self.name = new_name("app")
        broker.create_topic(self.words, partitions, replication)
        broker.create_topic(self.changelog, partitions, replication, cleanup_policy="compact")
        broker.create_topic(self.counts, partitions, replication)
        self.runners, self.stack = dict[str, TaskRunner](), ExitStack()
        self.written: Counter[str] = Counter()

    def start(self, name: str, guarantee: Any = "exactly_once", **settings: Any) -> TaskRunner:
        settings = {"consumer": QUICK, "transaction_timeout_s": 3.0, **settings}
        runner = TaskRunner(
            Topology.of(Subtopology((self.words,), self.changelog)),
            application=self.name,
            bootstrap_servers=self.broker.bootstrap,
            state_dir=self.folder / name,
            guarantee=guarantee,
            **settings,
        )
        self.runners[name] = runner
        self.stack.callback(self.stop, name)
        return runner

    def stop(self, name: str) -> None:
        if name in self.runners:
            self.runners.pop(name).close()

    def write(self, count: int) -> None:
        with KafkaProducer(bootstrap_servers=self.broker.bootstrap) as producer:
            for n in range(count):
                word = f"word-{n % 7}"
                self.written[word] += 1
                producer.send(self.words, word.encode(), partition=n % 7 % self.partitions)

    def count(self, runner: TaskRunner, timeout_ms: int = 20, large: Mapping[bytes, bytes] | None = None) -> int:
        """What the application does with one poll; values that some words have in place of a count may be large."""
        given = runner.poll(timeout_ms)
        for task, records in given.items():
            state = runner.state(task)
            for record in records:
                if large and record.value in large:
                    state.put(record.value, large[record.value])
                    continue
                number = int(state.get(record.value) or 0) + 1
                state.put(record.value, b"%d" % number)
                runner.send(self.counts, record.value, b"%d" % number)
        return sum(map(len, given.values()))

    def turn(self) -> None:
        for runner in list(self.runners.values()):
            self.count(runner)
            runner.commit()

    def until(self, what: str, true: Callable[[], bool], patience_s: float = 180) -> None:
        end = time.monotonic() + patience_s
        while not true():
            assert time.monotonic() < end, (what, {n: (r.active, r.restoring) for n, r in self.runners.items()})
            self.turn()

    def stored(self) -> dict[str, int]:
        """Counts in the stores of running tasks."""
        found: dict[str, int] = {}
        for runner in self.runners.values():
            for task in runner.active:
                store = runner.state(task).store
                assert isinstance(store, SqliteStore)
                found |= {key.decode(): int(value) for key, value in store.items()}
        return found

    def whole(self) -> bool:
        return self.stored() == self.written

    def sent(self) -> dict[str, list[int]]:
        """Each word's counts in the output, in order, as readers of committed records see them."""
        found: dict[str, list[int]] = {}
        for record in read(self.broker, self.counts):
            found.setdefault(record.key.decode(), []).append(int(record.value))
        return found

    def expected(self) -> dict[str, list[int]]:
        return {word: list(range(1, number + 1)) for word, number in self.written.items()}


def read(broker: Broker | BrokerCluster, topic: str, isolation_level: str = "read_committed") -> list[Any]:
    """All records of a topic."""
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level=isolation_level
    ) as reader:
        parts = [TopicPartition(topic, p) for p in sorted(reader.partitions_for_topic(topic))]
        reader.assign(parts)
        ends, records = reader.end_offsets(parts), list[Any]()
        end = time.monotonic() + 60
        while any(reader.position(part) < ends[part] for part in parts):
            assert time.monotonic() < end
            records.extend(itertools.chain.from_iterable(reader.poll(200).values()))
        return records


@pytest.fixture
def words(broker: Broker, tmp_path: Path) -> Iterable[WordCounts]:
    application = WordCounts(broker, tmp_path)
    with application.stack:
        yield application


def test_counts_and_outputs_are_exact_through_restarts_with_and_without_the_state(words: WordCounts) -> None:
    for name in ("a", "a", "b"):
        words.start(name)
        words.write(60)
        words.until("all is counted", words.whole)
        words.stop(name)
    assert words.sent() == words.expected()


def test_what_was_not_committed_by_a_process_that_ends_is_done_by_the_next_and_sent_once(words: WordCounts) -> None:
    first = words.start("a")
    words.write(40)
    words.until("all is counted", words.whole)
    words.write(30)
    given = 0
    while given < 30:
        given += words.count(first)
    words.stop("a")
    again = words.start("a")
    words.until("all is counted", words.whole)
    assert again.restored == 0, "its own store is whole"
    assert words.sent() == words.expected()


@pytest.mark.parametrize("step", ["offsets", "end", *map(thorough, ("answers", "refused"))])
def test_a_transaction_that_fails_at_any_step_is_undone_and_all_is_done_again(
    words: WordCounts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    """Also where it was committed and the answer did not come: what is read says which."""
    a = words.start("a")
    words.until("both run", lambda: len(a.active) == 2)
    words.write(30)
    delivery, wait, waits = delivery_of(a), delivery_of(a)._wait, itertools.count()

    def fails(result: Any) -> None:
        number = next(waits)
        if number == {"offsets": 0, "end": 1}.get(step):
            if step == "end":
                wait(result)
            raise KafkaTimeoutError("no answer")
        wait(result)

    def never(*args: Any) -> Any:
        monkeypatch.setattr(manager, "begin_commit", commit)
        raise KafkaTimeoutError("no coordinator")

    monkeypatch.setattr(delivery, "_wait", fails)
    manager = delivery._producer._transaction_manager
    commit = manager.begin_commit
    if step == "refused":
        monkeypatch.setattr(manager, "begin_commit", never)
    if step == "answers":
        send = delivery.send

        def too_late(record: Any) -> Any:
            if next(waits) == 1:
                raise KafkaTimeoutError("no leader")
            return send(record)

        monkeypatch.setattr(delivery, "send", too_late)
    words.until("all is counted", words.whole)
    assert "the work since the last commit is undone, and done again: " in caplog.text
    assert "somebody else" not in caplog.text
    assert words.sent() == words.expected()


def test_a_member_of_an_older_generation_cannot_commit(
    words: WordCounts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Frozen behind all of its own checks, it wakes when others have its tasks: the broker refuses its offsets."""
    a = words.start("a", consumer={**QUICK, "session_timeout_ms": 3000})
    words.until("a runs both", lambda: len(a.active) == 2)
    words.write(40)
    while not words.count(a):
        pass
    del words.runners["a"]
    heartbeat = a._consumer._coordinator
    heartbeat._disable_heartbeat()  # frozen: the group goes on without it
    b = words.start("b")
    words.until("b runs both and has counted all", lambda: len(b.active) == 2 and words.whole())
    monkeypatch.setattr(a._watch, "hears_the_group", lambda _: True)
    a.commit()
    assert "metadata mismatch" in caplog.text
    assert a.active == []
    a.close()
    words.write(20)
    words.until("b goes on", words.whole)
    assert words.sent() == words.expected()


def test_offsets_of_a_refused_transaction_do_not_go_into_the_next(words: WordCounts) -> None:
    """The client keeps them, and would commit them later under a generation in which they are another's."""
    a = words.start("a")
    words.until("both run", lambda: len(a.active) == 2)
    words.write(14)
    words.until("all is counted", words.whole)
    delivery, member = delivery_of(a), a._consumer.group_metadata()
    old = ConsumerGroupMetadata(member.group_id, member.generation_id - 1, member.member_id, None)
    of_others = {TopicPartition(words.words, 0): OffsetAndMetadata(3, "", -1)}
    delivery.begin()
    with pytest.raises(CommitFailedError, match="metadata mismatch"):
        delivery.finish(a._consumer, old, of_others)
    delivery.abort("refused")
    before = a._consumer.committed(TopicPartition(words.words, 0))
    with KafkaProducer(bootstrap_servers=words.broker.bootstrap) as producer:
        producer.send(words.words, b"word-1", partition=1)  # where the first run sent it
    words.written["word-1"] += 1
    words.until("the other partition is committed", words.whole)
    assert a._consumer.committed(TopicPartition(words.words, 0)) == before


def test_records_of_an_aborted_transaction_are_in_no_store(words: WordCounts) -> None:
    """A copy applies nothing that may be aborted, nor does a restore; the end of a transaction is no record."""
    a = words.start("a", settings=TaskSettings(num_standby_replicas=1))
    words.until("both run", lambda: len(a.active) == 2)
    words.write(30)
    words.until("all is counted", words.whole)
    del words.runners["a"]
    zombie = KafkaProducer(
        bootstrap_servers=words.broker.bootstrap, transactional_id=new_name("zombie"), transaction_timeout_ms=60_000
    )
    zombie.init_transactions()
    zombie.begin_transaction()
    for p in range(2):
        for word in ("word-1", "word-2", "never"):
            newest = [(EPOCH, b"99")]  # so that nothing else keeps them out
            zombie.send(words.changelog, key=word.encode(), value=b"666", partition=p, headers=newest).get(60)
    standby = words.start("b", settings=TaskSettings(num_standby_replicas=1))
    end = time.monotonic() + 60
    while len(standby.standby) < 2 or sum(standby.lag.values()) > 2 * 4:
        assert time.monotonic() < end
        standby.poll(20)
        a.poll(20)
    for _ in range(20):
        standby.poll(20)
    for store in standby._restorer.open.values():
        assert b"666" not in dict(store.items()).values(), "it may be aborted"  # type: ignore[attr-defined]
    a.close()
    zombie.abort_transaction()
    zombie.close()
    words.until("b runs both", lambda: len(standby.active) == 2)
    assert words.whole()
    words.write(20)
    words.until("b goes on", words.whole)
    assert words.sent() == words.expected()


def test_the_next_owner_waits_until_an_open_transaction_is_decided(words: WordCounts) -> None:
    """It may yet be committed: a state without it would miss records whose offsets are committed with it."""
    a = words.start("a")
    words.until("both run", lambda: len(a.active) == 2)
    words.write(20)
    words.until("all is counted", words.whole)
    words.stop("a")
    late = KafkaProducer(bootstrap_servers=words.broker.bootstrap, transactional_id=new_name("late"))
    late.init_transactions()
    late.begin_transaction()
    late.send(words.changelog, key=b"word-0", value=b"100", partition=0, headers=[(EPOCH, b"9")]).get(60)
    b = words.start("b")
    words.until("the other task runs", lambda: b.active == [Task(0, 1)])
    for _ in range(50):
        words.turn()
    assert b.restoring == [Task(0, 0)]
    late.commit_transaction()
    late.close()
    words.until("it runs", lambda: len(b.active) == 2)
    assert words.stored()["word-0"] == 100


@pytest.mark.parametrize(
    "held", ["changelog", *map(thorough, ("input", "committed offset")), "committed offset, negative hash"]
)
def test_a_task_that_an_open_transaction_holds_up_says_so_with_the_command_that_ends_it(
    words: WordCounts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, held: str
) -> None:
    """By itself it would wait in silence until the brokers' time-out, or for ever."""
    monkeypatch.setattr("apportion.clients.runtime.restore.HELD_S", 0.5)
    monkeypatch.setattr("apportion.clients.runtime.input_watch.STANDS_LOOKS", 2)
    hanging = KafkaProducer(bootstrap_servers=words.broker.bootstrap, transactional_id=new_name("hanging"))
    hanging.init_transactions()
    hanging.begin_transaction()
    topic, first = {"changelog": (words.changelog, "task 0_0 waits for its state: nothing behind offset 0 of ")}.get(
        held, (words.words, f"partition 0 of {words.words} waits: ")
    )
    if held.startswith("committed offset"):
        negative = held.endswith("negative hash")
        while (string_hash(words.name) >> 31) != negative:
            words.name = new_name("app")
        hanging.send_offsets_to_transaction(
            {TopicPartition(words.words, 0): OffsetAndMetadata(0, "", -1)}, ConsumerGroupMetadata(words.name)
        )
    else:
        hanging.send(topic, key=b"word-0", value=b"100", partition=0, headers=[(EPOCH, b"9")]).get(60)
    producer = hanging._transaction_manager.producer_id_and_epoch.producer_id
    warned_and_freed(words, caplog, first, producer)
    hanging.close(timeout=1)


def warned_and_freed(words: WordCounts, caplog: pytest.LogCaptureFixture, first: str, producer: int) -> None:
    """A line that begins so names the producer, since when, and the command; after the command, all goes on."""
    b = words.start("b")
    words.write(14)
    words.until("it is told", lambda: first in caplog.text)
    [line] = {record.getMessage() for record in caplog.records if record.getMessage().startswith(first)}
    assert f": producer {producer} (epoch " in line
    assert time.strftime("since %Y-%m-%d %H:", time.gmtime()) in line
    command = line.partition("abort it: kafka-transactions.sh ")[2].split()
    assert command[:2] == ["--bootstrap-server", words.broker.bootstrap]
    words.broker.tool("org.apache.kafka.tools.TransactionsCommand", *command[2:])
    words.until("all is counted", words.whole)
    assert len(b.active) == 2


@pytest.mark.parametrize("held", ["changelog", "input"])
def test_a_task_behind_an_aborted_transaction_whose_marker_kafka_lost_says_so_with_the_command_that_ends_it(
    jars: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, held: str
) -> None:
    """As KAFKA-20734 leaves it: the coordinator calls it aborted, its partition has it open, and no time-out ends it.

    Here the broker is killed and the marker cut off its log, which is what a broker finds that never wrote it.
    """
    monkeypatch.setattr("apportion.clients.runtime.restore.HELD_S", 0.5)
    monkeypatch.setattr("apportion.clients.runtime.input_watch.STANDS_LOOKS", 2)
    with Broker() as broker:
        words = WordCounts(broker, tmp_path)
        topic, first = {
            "changelog": (words.changelog, "task 0_0 waits for its state: nothing behind offset 0 of "),
            "input": (words.words, f"partition 0 of {words.words} waits: "),
        }[held]
        with KafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id="gone", enable_idempotence=True
        ) as gone:
            gone.init_transactions()
            gone.begin_transaction()
            gone.send(topic, key=b"word-0", value=b"100", partition=0, headers=[(EPOCH, b"9")]).get(60)
            producer = gone._transaction_manager.producer_id_and_epoch.producer_id
            gone.abort_transaction()
        describe = ("org.apache.kafka.tools.TransactionsCommand", "describe", "--transactional-id", "gone")
        words.until("the marker is written", lambda: "CompleteAbort" in broker.tool(*describe))
        broker.kill()
        cut_last_batch(broker.folder / "data" / f"{topic}-0")
        broker.start()
        assert "CompleteAbort" in broker.tool(*describe)
        with words.stack:
            warned_and_freed(words, caplog, first, producer)


def cut_last_batch(partition: Path) -> None:
    """Cut off the last batch of a log of one segment, which must be the marker of a transaction."""
    (segment,) = partition.glob("*.log")
    raw, at, last = segment.read_bytes(), 0, 0
    while at + 17 < len(raw) and int.from_bytes(raw[at + 8 : at + 12], "big"):
        last, at = at, at + 12 + int.from_bytes(raw[at + 8 : at + 12], "big")
    assert raw[last + 22] & 0x20, "a control batch"
    segment.write_bytes(raw[:last])
    for derived in [file for end in ("index", "snapshot") for file in partition.glob(f"*{end}")]:
        derived.unlink()


@pytest.mark.parametrize(
    ("guarantee", "cloned"),
    [
        ("exactly_once", True),
        ("at_least_once", True),
        thorough("exactly_once", False),
        thorough("at_least_once", False),
    ],
)
def test_two_processes_on_copies_of_one_folder_both_go_on_and_the_log_says_what_they_were(
    words: WordCounts, caplog: pytest.LogCaptureFixture, guarantee: str, cloned: bool
) -> None:
    """Also on a cloned volume, whose files have the numbers of the original: the group sees two runs of one process."""
    words.start("a", guarantee)
    words.write(20)
    words.until("all is counted", words.whole)
    words.stop("a")
    shutil.copytree(words.folder / "a", words.folder / "b")
    if cloned:
        lock = words.folder / "b/lock"
        lock.write_text(str(lock.stat().st_ino))
    a, b = words.start("a", guarantee), words.start("b", guarantee)
    words.until("one each", lambda: [len(runner.active) for runner in (a, b)] == [1, 1])
    for _ in range(5):
        words.write(20)
        words.until("all is counted", words.whole)
    assert a.process != b.process
    assert caplog.text.count("was copied (a cloned volume, a snapshot, an image)") == 1
    assert guarantee == "at_least_once" or words.sent() == words.expected()
    ids = {name: (words.folder / name / "process-id").read_text() for name in "ab"}
    assert ids == {"a": a.process, "b": b.process}, "a restart begins with its own"


def test_an_application_goes_to_exactly_once_and_back_on_its_folder_and_changelog(
    words: WordCounts, caplog: pytest.LogCaptureFixture
) -> None:
    for guarantee in ("at_least_once", "exactly_once", "at_least_once", "exactly_once"):
        a = words.start("a", guarantee)
        words.write(30)
        words.until("all is counted", words.whole)
        assert a.restored == 0
        words.stop("a")
    assert "starts again from the beginning" not in caplog.text
    assert "somebody else" not in caplog.text
    assert words.sent() == words.expected()


def test_members_of_both_guarantees_share_a_group_while_it_is_rolled_there_and_back(words: WordCounts) -> None:
    """Tasks go from one kind to the other with the group's own moves; no restart, no count lost or twice."""
    words.start("a", "at_least_once")
    for name, guarantee, leaves in (("b", "exactly_once", "a"), ("c", "at_least_once", "b")):
        words.write(30)
        words.until("all is counted", words.whole)
        words.start(name, guarantee)
        words.until("one each", lambda: [len(runner.active) for runner in words.runners.values()] == [1, 1])
        words.write(30)
        words.until("all is counted by both", words.whole)
        words.stop(leaves)
    words.write(30)
    words.until("all is counted", words.whole)
    assert {word: sorted(set(counts)) for word, counts in words.sent().items()} == words.expected()


def test_poll_commits_by_time_or_by_size_where_that_is_wished(
    words: WordCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = words.start("a", commit_every_s=0.2)
    words.write(30)
    end = time.monotonic() + 60
    while not words.whole():
        assert time.monotonic() < end
        words.count(a)
    a._commit_every_s = 3600.0
    monkeypatch.setattr("apportion.clients.tasks.COMMIT_BYTES", 10)
    words.write(30)
    while not words.whole():
        assert time.monotonic() < end
        words.count(a)
    assert words.sent() == words.expected()


def test_an_output_that_is_refused_raises_and_nothing_of_its_work_counts(words: WordCounts) -> None:
    a = words.start("a")
    words.until("both run", lambda: len(a.active) == 2)
    words.write(14)
    while not words.count(a):
        pass
    a.send(words.counts, b"large", bytes(2_000_000))
    with pytest.raises(MessageSizeTooLargeError):
        a.commit()
    words.until("all is done again", words.whole)
    assert words.sent() == words.expected()


def test_outputs_of_a_task_that_is_lost_before_the_commit_are_not_sent(words: WordCounts) -> None:
    """They are its next owner's to send; what other tasks did since the last commit is done again."""
    a = words.start("a")
    words.until("both run", lambda: len(a.active) == 2)
    words.write(28)
    given = 0
    while given < 28:
        given += words.count(a)
    a._watch.gone.append(TopicPartition(words.words, 0))
    words.until("all is counted", words.whole)
    assert words.sent() == words.expected()


def test_a_guarantee_that_there_is_not_is_refused(words: WordCounts) -> None:
    with pytest.raises(BadInput, match="at_least_once or exactly_once"):
        words.start("a", "at_most_once")


@pytest.mark.parametrize("guarantee", ["exactly_once", thorough("at_least_once")])
def test_a_record_that_cannot_be_processed_is_parked_with_its_origin_and_the_others_go_on(
    words: WordCounts, guarantee: str
) -> None:
    """Once, though all is undone and given again in between; one beyond the limit stops the application."""
    words.broker.create_topic(parking := new_name("parked"), 1)
    a = words.start("a", guarantee, parked_per_minute=1)
    words.until("both run", lambda: len(a.active) == 2)
    with KafkaProducer(bootstrap_servers=words.broker.bootstrap) as producer:
        for value in (b"bad", b"good", b"bad"):
            producer.send(words.words, value, key=b"k", partition=0, headers=[("trace", b"7")])

    def work() -> list[Any]:
        given: list[Any] = []
        while len(given) < 3:
            for record in itertools.chain.from_iterable(a.poll(50).values()):
                given.append(record)
                if record.offset == 0:
                    a.park(record, topic=parking, why="no number: \u00fc")
        return given

    given = work()
    if guarantee == "exactly_once":
        delivery_of(a)._undo(a._ledger, "for the test")
        given = work()
    with pytest.raises(Unavailable, match="1 records were parked within a minute, and this one, offset 2 of "):
        a.park(given[2], topic=parking, why="no number")
    a.commit()
    [record] = read(words.broker, parking)
    origin = {name.removeprefix("apportion-parked-"): value.decode() for name, value in record.headers}
    assert (record.key, record.value, origin.pop("trace")) == (b"k", b"bad", "7")
    assert origin == {
        "application": words.name,
        "why": "no number: \u00fc",
        "timestamp": str(given[0].timestamp),
        "topic": words.words,
        "partition": "0",
        "offset": "0",
    }
    assert a._consumer.committed(TopicPartition(words.words, 0)) == 3
    assert a.metrics["parked_records_total"] == 1


@pytest.mark.parametrize("name", ["isolation_level", "enable_auto_commit", "partition_assignment_strategy"])
def test_a_setting_of_the_consumer_that_would_count_twice_or_not_at_all_is_refused(
    words: WordCounts, name: str
) -> None:
    """With read_uncommitted a member reads on from an offset that another one's open transaction may yet move."""
    with pytest.raises(BadInput, match=rf"consumer\['{name}'\].*a setting that the runner makes itself"):
        words.start("a", consumer={name: "read_uncommitted"})


def test_a_producer_that_another_one_of_its_id_replaced_begins_anew(
    words: WordCounts, caplog: pytest.LogCaptureFixture
) -> None:
    """The brokers say the same where a transaction took too long: what was in it is undone and done again."""
    a = words.start("a")
    words.write(14)
    words.until("all is counted", words.whole)
    twin = KafkaProducer(
        bootstrap_servers=words.broker.bootstrap,
        transactional_id=delivery_of(a)._own_id(),
    )
    twin.init_transactions()
    twin.close()
    words.write(14)
    words.until("all is counted", words.whole)
    assert "is undone, and done again" in caplog.text
    assert words.sent() == words.expected()


def test_work_waits_while_a_topic_that_it_sends_to_is_gone(words: WordCounts, caplog: pytest.LogCaptureFixture) -> None:
    a = words.start("a")
    words.until("both run", lambda: len(a.active) == 2)
    words.broker.delete_topic(words.counts)
    words.write(14)
    words.until("it is told", lambda: "is undone, and done again" in caplog.text)
    assert words.stored() == {}
    words.broker.create_topic(words.counts, 2)
    words.until("all is counted", words.whole)
    assert words.sent() == words.expected()


@pytest.mark.parametrize("where", ["by the client", "by the broker"])
def test_a_value_that_its_changelog_refuses_holds_up_its_own_task_alone(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """Its task waits ever longer between two attempts; what the others did is done again and committed meanwhile."""
    words = WordCounts(broker, tmp_path)
    words.changelog = new_name("changelog")
    broker.create_topic(words.changelog, 2, cleanup_policy="compact", max_message_bytes="1000000")
    large = bytes(1_040_000 if where == "by the broker" else 2_000_000)

    def well(counts: Mapping[str, Any]) -> dict[str, Any]:
        return {word: number for word, number in counts.items() if int(word[5:]) % 2}

    with words.stack:
        a = words.start("a")
        words.until("both run", lambda: len(a.active) == 2)
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send(words.words, b"large", partition=0)
        refusals, end = 0, time.monotonic() + 60
        while refusals < 2 or words.stored() != well(words.written):
            assert time.monotonic() < end, (refusals, words.stored(), words.written)
            if refusals == 1 and not words.written:
                words.write(28)
            words.count(a, large={b"large": large})
            try:
                a.commit()
            except MessageSizeTooLargeError:
                refusals += 1
        assert "task 0_0 changed was refused" in caplog.text
        assert "task 0_1 changed was refused" not in caplog.text
        assert words.sent() == well(words.expected())


def test_outputs_at_least_once_are_sent_with_the_commit(words: WordCounts) -> None:
    a = words.start("a", "at_least_once")
    words.until("both run", lambda: len(a.active) == 2)
    words.write(14)
    while not words.count(a):
        pass
    assert words.sent() == {}
    words.until("all is counted", words.whole)
    assert words.sent() == words.expected()


@pytest.fixture(scope="module")
def two_brokers(jars: str) -> Iterator[BrokerCluster]:
    """The second may be killed; both look often for transactions that take too long."""
    properties = {
        "offsets.topic.replication.factor": "2",
        "offsets.topic.num.partitions": "6",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "6",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
    with BrokerCluster(["a", "b"], properties=properties) as cluster:
        yield cluster


def test_a_transaction_that_takes_longer_than_its_time_out_is_undone_and_done_again(
    two_brokers: BrokerCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = WordCounts(two_brokers, tmp_path)
    with words.stack:
        a = words.start("a", transaction_timeout_s=1.0)
        words.until("both run", lambda: len(a.active) == 2)
        words.write(30)
        finish, naps = delivery_of(a).finish, iter([2.5])

        def late(*args: Any) -> bool:
            time.sleep(next(naps, 0.0))
            return finish(*args)

        monkeypatch.setattr(delivery_of(a), "finish", late)
        words.until("all is counted", words.whole)
        assert "the work since the last commit is undone, and done again: " in caplog.text
        assert words.sent() == words.expected()


def test_the_coordinators_of_the_group_and_of_the_transaction_move_in_the_middle_of_it(
    two_brokers: BrokerCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are on the broker that is killed behind the records of a transaction and before its offsets."""
    words = WordCounts(two_brokers, tmp_path, replication=2)
    words.name = coordinated_by_second(two_brokers)
    with words.stack:
        for number in itertools.count():
            a = words.start(str(number))
            mine = delivery_of(a)._own_id()
            if partition_of_commits(mine, 6) in led_by_second(two_brokers, "__transaction_state"):
                break
            words.stop(str(number))
        words.until("both run", lambda: len(a.active) == 2)
        words.write(30)
        words.until("30 are counted", words.whole)
        finish, dying = delivery_of(a).finish, iter([two_brokers.brokers[1].kill])

        def killed(*args: Any) -> bool:
            next(dying, lambda: None)()
            return finish(*args)

        monkeypatch.setattr(delivery_of(a), "finish", killed)
        words.write(30)
        words.until("60 are counted by the broker that is left", words.whole)
        assert words.sent() == words.expected()
        two_brokers.brokers[1].start()
        words.write(30)
        words.until("and with both again", words.whole)
        assert words.sent() == words.expected()


def test_tasks_whose_changelog_has_no_leader_wait_by_themselves_and_the_others_go_on(
    two_brokers: BrokerCluster, tmp_path: Path
) -> None:
    """The commit in which the leader died is undone; its task is restored, and so waits until it is back."""
    words = WordCounts(two_brokers, tmp_path, replication=2)
    words.name = new_name("app")
    ill = set[int]()
    while len(ill) != 1:  # one changelog partition on each broker
        words.changelog = new_name("changelog")
        two_brokers.create_topic(words.changelog, 2, cleanup_policy="compact")
        ill = led_by_second(two_brokers, words.changelog)
    with words.stack:
        a = words.start("a")
        words.until("both run", lambda: len(a.active) == 2)
        words.write(28)
        words.until("all is counted", words.whole)
        before = words.stored()
        begin, dying = delivery_of(a).begin, iter([two_brokers.brokers[1].kill])

        def killed() -> None:
            begin()
            next(dying, lambda: None)()

        delivery_of(a).begin = killed
        words.write(28)
        well = {word: number for word, number in words.written.items() if int(word[5:]) % 2 not in ill}
        words.until("the others go on", lambda: words.stored() == well)
        words.write(28)
        well = {word: number for word, number in words.written.items() if int(word[5:]) % 2 not in ill}
        words.until("and on", lambda: words.stored() == well)
        assert before.keys() - well.keys()
        two_brokers.brokers[1].start()
        words.until("all go on", words.whole)
        assert words.sent() == words.expected()


def test_an_input_that_is_deleted_and_made_anew_is_read_from_its_beginning_and_counts_go_on(words: WordCounts) -> None:
    a = words.start("a")
    words.until("both run", lambda: len(a.active) == 2)
    words.write(14)
    words.until("all is counted", words.whole)
    words.broker.delete_topic(words.words)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        words.turn()
    words.broker.create_topic(words.words, 2)
    words.write(28)
    words.until("what the new topic has is counted too", words.whole)
    assert words.sent() == words.expected()
