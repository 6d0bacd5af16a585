"""Kafka's own word on a cluster, kept beside the dump: its tools, its formatters, its serializers, its members.

offsets.txt, members.txt, state.txt, list.txt   what ConsumerGroupCommand printed about all groups
offset-records.ndjson.gz                        what OffsetsMessageFormatter printed, one record a line
group-records.ndjson.gz                         what GroupMetadataMessageFormatter printed, one record a line
records.ndjson.gz                               each record of the dump through the coordinator's own deserializer
members.json                                    what each member itself said that it was given, by generation
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from apportion.testing import jars
from apportion.testing.broker import BrokerCluster
from apportion.testing.peers import JavaCodec, JavaMember
from tools.recording.dump import OFFSETS
from tools.recording.stage import Stage

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTER = "org.apache.kafka.tools.consumer."
LISTENER = "formatter-listens"


def write_tools(folder: Path, cluster: BrokerCluster) -> None:
    """What ConsumerGroupCommand says of all groups."""
    asked = {
        "offsets.txt": ["--describe", "--all-groups", "--offsets"],
        "members.txt": ["--describe", "--all-groups", "--members", "--verbose"],
        "state.txt": ["--describe", "--all-groups", "--state"],
        "list.txt": ["--list", "--state", "--type"],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, args in asked.items():
        (folder / name).write_text(cluster.tool(GROUPS, *args), encoding="utf-8")


def write_versions(folder: Path) -> None:
    """Which Kafka and which clients played."""
    jar = next((jars.home() / "kafka").glob("kafka-clients-*.jar"))
    versions = {"apache-kafka": jar.stem.removeprefix("kafka-clients-")}
    versions |= {name: version(name) for name in ("kafka-python", "aiokafka", "confluent-kafka")}
    (folder / "versions.json").write_text(json.dumps(versions, indent=1) + "\n", encoding="utf-8")


def write_formatters(folder: Path, cluster: BrokerCluster) -> None:
    """What the two formatters print; they put no newline between records, and listening is itself a group."""
    asked = {
        "offset-records.ndjson.gz": "OffsetsMessageFormatter",
        "group-records.ndjson.gz": "GroupMetadataMessageFormatter",
    }
    for name, formatter in asked.items():
        args = ["--topic", OFFSETS, "--formatter", FORMATTER + formatter, "--from-beginning", "--group", LISTENER]
        args += ["--timeout-ms", "5000", "--isolation-level", "read_committed"]
        args += ["--command-property", "enable.auto.commit=false"]  # or it reads its own commits for ever
        with cluster.admin() as admin:
            if LISTENER in [group["group_id"] for group in admin.list_groups()]:
                admin.delete_groups([LISTENER])
        said = cluster.tool(CONSOLE, *args)
        write_lines(folder / name, (one for one in objects(said) if one["key"]["data"]["group"] != LISTENER))


def objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects that stand one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        found, at = decoder.raw_decode(text, at)
        yield found


def write_decoded(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Each record as the coordinator's own deserializer reads it."""
    with JavaCodec() as codec:
        decoded = codec.decode_records((row["key"], row["value"]) for row in rows)
    at = ({"partition": row["partition"], "offset": row["offset"]} for row in rows)
    write_lines(folder / "records.ndjson.gz", ({**place, **one} for place, one in zip(at, decoded, strict=True)))


def write_members(folder: Path, stage: Stage) -> None:
    """What every member said that it was given."""
    told = [
        {"group": group, "client_id": name, "language": type(member).__name__, **said}
        for group, name, member in stage.cast
        for said in assignments(member)
    ]
    told.sort(key=lambda one: (one["group"], one["at"]))
    (folder / "members.json").write_text("[\n" + ",\n".join(map(dumps, told)) + "\n]\n", encoding="utf-8")


def assignments(member: Any) -> Iterator[dict[str, Any]]:
    """Its assignments: in the classic protocol as its callback heard them, under KIP-848 by epoch."""
    consumer = isinstance(member, JavaMember) and member.settings.get("group.protocol") == "consumer"
    for event in member.events:
        if event["event"] == ("assignment" if consumer else "assigned") and event["generation"] >= 0:
            yield {
                "generation": event["generation"],
                "member_id": event["member"],
                "instance_id": event["instance"],
                "partitions": event["partitions" if consumer else "holds"],
                "at": round(event["at"], 3),
            }


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """NDJSON, gzipped, the same bytes for the same lines."""
    text = "".join(dumps(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def dumps(line: dict[str, Any]) -> str:
    """Short JSON, readable beyond ASCII."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))
