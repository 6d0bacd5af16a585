"""Captures of a real broker: each record once, whatever happens in between, and one sentence for what is wrong."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.conftest import rows_of
from tests.spark.stores import reach, store
from tests.support.examples import thorough
from tests.support.s3 import S3Server

from apportion.errors import BadInput, Unavailable
from apportion.pipeline import decode
from apportion.sources import cluster
from apportion.spark import bronze, capture, errors, job, packages, session
from apportion.spark.location import locate
from apportion.spark.python_source import OffsetsStream, towards
from apportion.testing.broker import Broker
from apportion.testing.plugin import needs_java

pytestmark = [pytest.mark.spark, pytest.mark.broker]
THOROUGH = os.environ.get("APPORTION_THOROUGH") == "1"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="%s" password="%s";'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A keystore for 127.0.0.1 and a truststore that trusts it, both with the password s3cret."""
    if shutil.which("keytool") is None:
        pytest.skip("keytool is not installed: apt-get install openjdk-17-jre-headless")
    folder = tmp_path_factory.mktemp("tls")
    common = ["-storepass", "s3cret", "-storetype", "PKCS12", "-alias", "broker"]
    key = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1", "-validity", "2"]
    for command in (
        [*key, *common, "-keystore", "broker.p12"],
        ["-exportcert", "-rfc", *common, "-keystore", "broker.p12", "-file", "ca.pem"],
        ["-importcert", "-noprompt", *common, "-keystore", "trust.p12", "-file", "ca.pem"],
    ):
        subprocess.run(["keytool", *command], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def kafka(certificates: Path) -> Iterator[Broker]:
    """A broker with five offsets partitions, a SASL_SSL listener, and ACLs that let everybody plain do everything."""
    needs_java()
    users = 'user_admin="s3cret" user_ann="s3cret" user_bob="s3cret" user_eve="s3cret"'
    properties = {
        "offsets.topic.num.partitions": "5",
        "log.cleaner.backoff.ms": "300",
        "listeners+": "SASL://127.0.0.1:{port}",
        "listener.security.protocol.map+": "SASL:SASL_SSL",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": PLAIN.replace(";", f" {users};") % ("admin", "s3cret"),
        "listener.name.sasl.ssl.keystore.location": str(certificates / "broker.p12"),
        "listener.name.sasl.ssl.keystore.password": "s3cret",
        "listener.name.sasl.ssl.keystore.type": "PKCS12",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:ann",
    }
    with Broker(rack="a", properties=properties) as one:
        one.create_topic("t", 3)
        yield one


def commit(kafka: Broker, group: str, count: int) -> None:
    """A group joins, commits ``count`` times, and leaves.

    With a strategy of ours: kafka-python alone forgets a join that outlives a ``poll`` (docs/trouble.md).
    """
    from kafka import KafkaConsumer, TopicPartition
    from kafka.structs import OffsetAndMetadata

    from apportion.clients.kafka_python import assignor

    member = KafkaConsumer(
        "t",
        bootstrap_servers=kafka.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[assignor("range")],
    )
    while not member.assignment():
        member.poll(timeout_ms=200)
    for number in range(count):
        member.commit({TopicPartition("t", number % 3): OffsetAndMetadata(number, "", -1)})
    member.close()
    wait_for_quiet(kafka)


def wait_for_quiet(kafka: Broker) -> None:
    """Until nobody writes to the offsets topic any more: what a member leaves behind may come late."""
    before: object = None
    with cluster.connect(kafka.bootstrap) as there:
        for _ in range(240):
            now = [(one.partition, one.last_stable) for one in there.ends(there.partitions([cluster.OFFSETS]))]
            if now == before:
                return
            before = now
            time.sleep(0.5)


def records(folder: Path) -> pa.Table:
    """What was captured, in order."""
    return pq.read_table(folder / "records").sort_by([("partition", "ascending"), ("offset", "ascending")])


def places(folder: Path) -> list[tuple[int, int]]:
    table = records(folder)
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def login(folder: Path, certificates: Path, user: str, password: str = "s3cret", trust: str = "trust.p12") -> Path:  # noqa: S107
    """A properties file of Kafka's tools."""
    file = folder / f"{user}.properties"
    kind = "PEM" if trust.endswith(".pem") else "PKCS12"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={PLAIN % (user, password)}\n"
        f"ssl.truststore.location={certificates / trust}\nssl.truststore.type={kind}\n"
        + ("" if kind == "PEM" else "ssl.truststore.password=s3cret\n")
    )
    return file


def test_both_sources_bring_the_same_records_once(kafka: Broker, spark: Any, tmp_path: Path) -> None:
    """In two captures each, equal byte for byte, with log ends and topics sampled after; a third adds nothing."""
    sources = ["python"] + (["connector"] if packages.local_jars(packages.KAFKA) else [])
    tmp_path = tmp_path / "into [1] {a,b} * 100%"  # a name that Spark could take for a pattern
    commit(kafka, "first", 20)
    got = {name: [job.capture(kafka.bootstrap, tmp_path / name, source=name, spark=spark)] for name in sources}
    commit(kafka, "second", 20)
    for name in sources:
        got[name].append(job.capture(kafka.bootstrap, tmp_path / name, spark=spark))
        got[name].append(job.capture(kafka.bootstrap, tmp_path / name, spark=spark))
        assert [one.records for one in got[name]][2] == 0
        found = places(tmp_path / name)
        assert len(found) == len(set(found)) == sum(one.records for one in got[name])
        ends = pq.read_table(tmp_path / name / "ends.parquet").to_pylist()
        last = {p: max(o for q, o in found if q == p) for p, _ in found}
        sampled = {row["partition"]: row["last_stable"] for row in ends if row["topic"] == "__consumer_offsets"}
        assert all(sampled[p] == offset + 1 for p, offset in last.items())
        topics = pq.read_table(tmp_path / name / "topics.parquet").to_pylist()
        assert {(r["topic"], r["partition"], tuple(r["racks"])) for r in topics} >= {("t", p, ("a",)) for p in range(3)}
        assert len(list((tmp_path / name / "samples").iterdir())) == 3
    tables = [records(tmp_path / name) for name in sources]
    assert all(table.equals(tables[0]) for table in tables)


def test_a_service_goes_on_until_it_is_stopped(kafka: Broker, spark: Any, tmp_path: Path) -> None:
    """Each turn takes what came in between."""

    class Enough(Exception):
        pass

    turns: list[str] = []

    def progress(line: str) -> None:
        if "next in" in line:
            turns.append(line)
            if len(turns) == 2:
                raise Enough
            commit(kafka, "service", 3)

    commit(kafka, "service", 1)  # so that there is something, whichever tests ran before
    with pytest.raises(Enough):
        job.capture(
            kafka.bootstrap, tmp_path, service=True, interval_s=0, spark=spark, progress=progress, source="python"
        )
    assert int(turns[1].split()[0]) >= 3


def test_sasl_ssl_works_for_spark_and_for_the_admin_client(
    kafka: Broker, spark: Any, certificates: Path, tmp_path: Path
) -> None:
    """With a PKCS12 truststore and with PEM; a wrong password is one sentence without it."""
    commit(kafka, "tls", 3)
    server = f"127.0.0.1:{kafka.ports['port']}"
    for source, trust in (("python", "ca.pem"), ("connector", "trust.p12")):
        if source == "connector" and not packages.local_jars(packages.KAFKA):
            continue
        file = login(tmp_path, certificates, "ann", trust=trust)
        found = job.capture(server, tmp_path / source, command_config=file, source=source, spark=spark)
        assert found.records == len(places(tmp_path / source)) > 0
    wrong = login(tmp_path, certificates, "ann", password="wr0ng")  # noqa: S106
    with pytest.raises(Unavailable, match="refused the login") as raised:
        job.capture(server, tmp_path / "no", command_config=wrong, spark=spark)
    assert "wr0ng" not in str(raised.value)


def test_no_permission_is_said_and_nothing_is_written(
    kafka: Broker, spark: Any, certificates: Path, tmp_path: Path
) -> None:
    """Bob may describe the topic and not read it; Eve may not even see it."""
    commit(kafka, "acl", 1)
    topic = ("--topic", "__consumer_offsets")
    kafka.tool(
        "org.apache.kafka.tools.AclCommand", "--add", "--allow-principal", "User:bob", "--operation", "Describe", *topic
    )
    server = f"127.0.0.1:{kafka.ports['port']}"
    eve, bob = (login(tmp_path, certificates, user) for user in ("eve", "bob"))
    with pytest.raises(Unavailable, match="ACL Describe"):
        job.capture(server, tmp_path / "eve", command_config=eve, spark=spark)
    for source in ["python"] + (["connector"] if packages.local_jars(packages.KAFKA) else []):
        with pytest.raises(
            Unavailable, match=r"may not (read __consumer_offsets|use Spark's consumer group).*ACL"
        ) as raised:
            job.capture(server, tmp_path / source, command_config=bob, source=source, spark=spark)
        assert "\n" not in str(raised.value)
        assert not list((tmp_path / source).rglob("*.parquet"))


DEBUGGED = """
import shutil, sys
shutil.rmtree = lambda *a, **k: None
from apportion.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", ["connector", thorough("python")])
def test_no_password_is_printed_though_everything_is(
    kafka: Broker, certificates: Path, tmp_path: Path, source: str
) -> None:
    """Not in the traceback that APPORTION_DEBUG asks for, in no log or scratch file of Spark's, nor in the dump."""
    if source == "connector" and not packages.local_jars(packages.KAFKA):
        pytest.skip("the connector's jars are not here")
    commit(kafka, "secret", 1)
    kafka.tool(
        "org.apache.kafka.tools.AclCommand", "--add", "--allow-principal", "User:bob", "--operation", "Describe",
        "--topic", "__consumer_offsets",
    )  # fmt: skip
    (tmp_path / "scratch").mkdir()
    done = subprocess.run(
        [
            sys.executable, "-c", DEBUGGED, "pipeline", "capture", "--bootstrap-server",
            f"127.0.0.1:{kafka.ports['port']}", "--command-config", str(login(tmp_path, certificates, "bob")),
            "--source", source, "--to", str(tmp_path / "out"),
        ],
        env={**os.environ, "APPORTION_DEBUG": "1", "TMPDIR": str(tmp_path / "scratch")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" in done.stderr
    assert "needs the ACL" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    written = [file for part in ("scratch", "out") for file in (tmp_path / part).rglob("*") if file.is_file()]
    assert any(file.name == "spark.log" for file in written)
    assert [file for file in written if b"s3cret" in file.read_bytes()] == []


def test_a_topic_that_was_given_more_partitions_is_refused(spark: Any, tmp_path: Path) -> None:
    """For a group's records may now lie in two of them, and their order is lost."""
    needs_java()
    with Broker(properties={"offsets.topic.num.partitions": "2"}) as one:
        one.create_topic("t", 3)
        commit(one, "grown", 3)
        job.capture(one.bootstrap, tmp_path, source="python", spark=spark)
        before = records(tmp_path)
        one.grow_topic("__consumer_offsets", 3)
        with pytest.raises(BadInput, match=r"partitions of __consumer_offsets: found 2 when .* needed 3, as it is now"):
            job.capture(one.bootstrap, tmp_path, spark=spark)
    assert records(tmp_path).equals(before)


def test_a_wrong_address_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Spark starts, and before a folder is made."""
    started: list[object] = []
    monkeypatch.setattr(session, "start", lambda *words, **settings: started.append(words))
    with pytest.raises(Unavailable, match=r"no Kafka broker answered at 127\.0\.0\.1:1"):
        job.capture("127.0.0.1:1", tmp_path / "out")
    assert started == []
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_refused(kafka: Broker, spark: Any, tmp_path: Path) -> None:
    """Another cluster, another number of partitions, another version, a lost checkpoint, records of a stranger."""
    commit(kafka, "folder", 2)
    job.capture(kafka.bootstrap, tmp_path / "ok", source="python", spark=spark)
    before = records(tmp_path / "ok")
    origin = json.loads((tmp_path / "ok" / "capture.json").read_text())

    def complains(words: str, **change: Any) -> None:
        shutil.rmtree(tmp_path / "bad", ignore_errors=True)
        shutil.copytree(tmp_path / "ok", tmp_path / "bad")
        (tmp_path / "bad" / "capture.json").write_text(json.dumps({**origin, **change}))
        with pytest.raises(BadInput, match=words) as raised:
            job.capture(kafka.bootstrap, tmp_path / "bad", spark=spark)
        assert "\n" not in str(raised.value)
        assert records(tmp_path / "bad").equals(before)

    complains("partitions of __consumer_offsets: found 50 when the capture began; needed 5", partitions=50)
    complains("cluster: found other", cluster_id="other")
    complains("found version 99; needed version 1", version=99)
    with pytest.raises(BadInput, match="source: found python"):
        job.capture(kafka.bootstrap, tmp_path / "ok", source="connector", spark=spark)
    offsets = tmp_path / "ok" / "checkpoint" / "offsets" / "0"
    told = offsets.read_text()
    offsets.write_text(told.replace("v1", "v9", 1))
    offsets.with_name(".0.crc").unlink(missing_ok=True)
    with pytest.raises(Unavailable, match=r"v9|version") as raised:
        job.capture(kafka.bootstrap, tmp_path / "ok", spark=spark)
    assert "\n" not in str(raised.value)
    assert records(tmp_path / "ok").equals(before)
    offsets.write_text(told)
    shutil.rmtree(tmp_path / "ok" / "checkpoint")
    with pytest.raises(BadInput, match="checkpoint"):
        job.capture(kafka.bootstrap, tmp_path / "ok", spark=spark)
    (tmp_path / "ok" / "capture.json").unlink()
    with pytest.raises(BadInput, match=r"no capture\.json"):
        job.capture(kafka.bootstrap, tmp_path / "ok", spark=spark)


def test_what_compaction_took_between_two_runs_is_seen(kafka: Broker, spark: Any, tmp_path: Path) -> None:
    """Offsets that hold no record any more are counted and told; so are their places, in ``silver/gaps``."""
    commit(kafka, "lost", 5)
    job.capture(kafka.bootstrap, tmp_path, source="python", spark=spark)
    number = next(
        p for p, key in zip(*(records(tmp_path)[name].to_pylist() for name in ("partition", "key")), strict=True)
        if b"lost" in key
    )  # fmt: skip
    kafka.tool(
        "kafka.admin.ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "__consumer_offsets",
        "--add-config",
        "segment.ms=200,min.cleanable.dirty.ratio=0.001,max.compaction.lag.ms=200",
    )  # fmt: skip
    wait_for_compaction(kafka, number, bronze.FolderBronze(locate(tmp_path), tmp_path).position()[number])
    # From here on nothing more: other tests compare what two captures read of this log, one after the other.
    kafka.tool(
        "kafka.admin.ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "__consumer_offsets",
        "--delete-config", "segment.ms,min.cleanable.dirty.ratio,max.compaction.lag.ms",
        "--add-config", "min.compaction.lag.ms=86400000",
    )  # fmt: skip
    lines: list[str] = []
    found = job.capture(kafka.bootstrap, tmp_path, spark=spark, progress=lines.append)
    assert found.missing > 0
    assert any(f"{found.missing} offsets held no record any more" in line for line in lines)
    runs = decode.joined_runs(decode.runs_of(records(tmp_path)))
    gaps = [gap for gap in decode.gaps(runs, {}).to_pylist() if gap["source_partition"] == number]
    assert 0 < sum(gap["missing"] for gap in gaps) <= found.missing


def wait_for_compaction(kafka: Broker, number: int, start: int) -> None:
    """Commit to the same keys until the cleaner has taken some of the records from ``start`` on."""
    until = time.monotonic() + 180
    while time.monotonic() < until:
        commit(kafka, "lost", 5)
        time.sleep(1)  # each look reads the log's ends; the cleaner takes its time
        with cluster.connect(kafka.bootstrap) as there:
            ends = there.ends(there.partitions([cluster.OFFSETS]))
        end = next(one.last_stable for one in ends if one.partition == number)
        rows = cluster.read_committed(kafka.bootstrap, {}, cluster.OFFSETS, number, start, end)
        if sum(len(some) for some in rows) < end - start:
            return
    raise AssertionError("the cleaner did nothing in 180 s")


CHILD = """
import sys
from apportion.spark import job
def say(line): print(line, flush=True)
job.capture(sys.argv[1], sys.argv[2], source=sys.argv[3], rows_a_batch=40, progress=say)
print("done", flush=True)
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("source", ["python", thorough("connector")])
def test_a_capture_that_is_killed_goes_on_where_it_was(kafka: Broker, spark: Any, tmp_path: Path, source: str) -> None:
    """kill -9 at random moments, then once undisturbed: each record once, as in a capture that nobody killed."""
    if source == "connector" and not packages.local_jars(packages.KAFKA):
        pytest.skip("the connector's jars are not here")
    commit(kafka, "killed", 300)
    rng = random.Random(7)
    folder = tmp_path / "killed"
    for _ in range(10 if THOROUGH else 1):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, kafka.bootstrap, str(folder), source], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("reading"):
                break
        time.sleep(rng.uniform(0, 12))
        child.kill()
        child.wait()
        child.stdout.close()
        written = places(folder) if (folder / "records").is_dir() and any((folder / "records").iterdir()) else []
        assert len(written) == len(set(written))
    job.capture(kafka.bootstrap, folder, spark=spark)
    job.capture(kafka.bootstrap, tmp_path / "calm", source="python", spark=spark)
    assert records(folder).equals(records(tmp_path / "calm"))
    assert not list(folder.glob(".staging-*"))


@pytest.mark.parametrize("form", ["parquet", thorough("delta")])
def test_a_capture_that_was_killed_while_it_wrote_its_first_plan_goes_on(
    kafka: Broker, spark: Any, tmp_path: Path, form: str
) -> None:
    """Spark writes a plan as a hidden draft and renames it; where one is left it would never begin."""
    if form == "delta" and not packages.local_jars(packages.DELTA):
        pytest.skip("Delta's jars are not on this machine")
    commit(kafka, "planned", 20)
    offsets = tmp_path / "dump" / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.7f3d2f2c-9f3b-4c7e-8a55-0d6f3c1c2f10.tmp").touch()
    (offsets.parent / "metadata").write_text('{"id":"d89088f5-f5e5-41cb-b626-c4b2b22c3e62"}')
    first = job.capture(kafka.bootstrap, tmp_path / "dump", form=form, spark=spark)
    assert first.records >= 20
    assert job.capture(kafka.bootstrap, tmp_path / "dump", form=form, spark=spark).records == 0


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_a_capture_into_an_object_store_that_is_killed_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    """kill -9 while Spark streams into Delta on a real S3 server; then each record once, and the same as elsewhere."""
    server = store(S3Server, *packages.SETS)
    needs_java()
    rng = random.Random()
    place = "s3a://lake/dump"
    # A broker of its own: that of the other tests compacts its log between the captures that are compared.
    with server as s3, Broker(properties={"offsets.topic.num.partitions": "5"}) as kafka:
        kafka.create_topic("t", 3)
        commit(kafka, "far", 200)
        reach(spark, s3)
        for _ in range(5 if THOROUGH else 1):
            child = subprocess.Popen(
                [sys.executable, "-c", CHILD, kafka.bootstrap, place, "connector"], stdout=subprocess.PIPE, text=True,
                env={**os.environ, **s3.environment},
            )  # fmt: skip
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("reading"):
                    break
            time.sleep(rng.uniform(0, 12))
            child.kill()
            child.wait()
            child.stdout.close()
        job.capture(kafka.bootstrap, place, source="connector", rows_a_batch=100, spark=spark)
        commit(kafka, "further", 5)
        last = job.capture(kafka.bootstrap, place, spark=spark)
        job.capture(kafka.bootstrap, tmp_path / "calm", source="python", spark=spark)
        order = [(name, "ascending") for name in ("partition", "offset")]
        far = spark.read.format("delta").load(f"{place}/records").toArrow().sort_by(order)
        calm = records(tmp_path / "calm")
        assert rows_of(far) == rows_of(calm)
        assert last.records == sum(1 for row in calm.to_pylist() if b"further" in row["key"])
        ends = spark.read.format("delta").load(f"{place}/ends")
        assert ends.select("at").distinct().count() >= 2, "every sample is kept"
        assert [state.name for state in job.status(place, spark=spark)] == ["records"]
        with pytest.raises(BadInput, match="source: found connector when the capture began"):
            job.capture(kafka.bootstrap, place, source="python", spark=spark)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    # Ctrl-C ends ``pipeline run`` in test_run.py.
    ("number", "code"),
    [thorough(signal.SIGINT, 130), (signal.SIGTERM, 143)],
)
def test_a_signal_ends_a_service_quietly_and_the_next_run_goes_on(
    kafka: Broker, spark: Any, tmp_path: Path, number: int, code: int
) -> None:
    """As a terminal and ``timeout`` do it: the signal goes to Spark's processes too, and the JVM heeds SIGTERM."""
    commit(kafka, "interrupted", 20)
    words = ["pipeline", "capture", "--bootstrap-server", kafka.bootstrap, "--to", str(tmp_path), "--service"]
    command = [sys.executable, "-m", "apportion", *words, "--interval", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if "next in" in line:
                break
        os.killpg(child.pid, number)
        rest = child.stderr.read()
    assert child.returncode == code
    assert "Traceback" not in rest
    assert "Error" not in rest
    before = places(tmp_path)
    commit(kafka, "interrupted", 5)
    job.capture(kafka.bootstrap, tmp_path, spark=spark)
    after = places(tmp_path)
    assert len(after) == len(set(after)) >= len(before) + 5


@pytest.mark.timeout(900)
def test_a_service_whose_jvm_was_killed_ends_with_a_sentence(kafka: Broker, tmp_path: Path) -> None:
    """It could try for ever: what starts the service anew starts another JVM too."""
    commit(kafka, "orphaned", 3)
    words = ["pipeline", "capture", "--bootstrap-server", kafka.bootstrap, "--to", str(tmp_path), "--service"]
    command = [sys.executable, "-m", "apportion", *words, "--interval", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if "next in" in line:
                break
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        for pid in children:
            os.kill(int(pid), signal.SIGKILL)
        rest = child.stderr.read()
    assert child.returncode == 2, rest
    assert "Traceback" not in rest
    assert rest.splitlines()[-1].startswith("apportion: Spark's Java process has ended: ")


def test_an_interrupt_is_not_lost_where_cleaning_up_fails() -> None:
    """Spark's processes may have been told to end too: what cannot be stopped any more was stopped."""

    @contextmanager
    def stopped(error: Exception) -> Iterator[None]:
        try:
            yield
        finally:
            raise error

    for interrupt in (KeyboardInterrupt, SystemExit):
        for error in (OSError("gone"), Unavailable("gone"), ValueError("gone")):
            with pytest.raises(interrupt), errors.plainly("lake"), stopped(error):
                raise interrupt


def test_a_source_that_sees_less_than_the_broker_has_is_an_error(
    kafka: Broker, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark's connector does by default, which leaves internal topics out without a word."""
    commit(kafka, "blind", 2)
    if not packages.local_jars(packages.KAFKA):
        pytest.skip("the connector's jars are not here")
    real = capture._stream

    def blind(*given: Any) -> Any:
        stream = real(*given)
        spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "false")
        return stream

    monkeypatch.setattr(capture, "_stream", blind)
    with pytest.raises(Unavailable, match="but the source read"):
        job.capture(kafka.bootstrap, tmp_path, source="connector", spark=spark)
    assert not (tmp_path / "ends.parquet").exists()


def test_a_limit_moves_every_partition_its_share() -> None:
    """Never backwards, never beyond the target, and something moves even under a tiny limit."""
    assert towards({"0": 5, "1": 0}, {"0": 5, "1": 10}, 100) == {"0": 5, "1": 10}
    assert towards({"0": 7}, {"0": 5}, 100) == {"0": 7}
    assert towards({str(n): 0 for n in range(50)}, {str(n): 1000 for n in range(50)}, 1) == {
        str(n): 1 for n in range(50)
    }


def test_a_partition_without_a_leader_stays_where_it_is() -> None:
    """Else the next batch would begin it anew, and every record of it would be there twice."""
    stream = OffsetsStream({"bootstrap": "nowhere:1"})
    stream.target = {"0": 100}
    assert stream.latestOffset({"0": 50, "1": 5000}) == {"0": 100, "1": 5000}
