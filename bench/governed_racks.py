"""Bytes that a group reads across zones, under ``uniform`` and governed by racks: python -m bench.governed_racks

Three brokers in racks a, b and c, which let consumers fetch from a replica in their own rack; 24 partitions with two
replicas each; six confluent-kafka members, two in each rack. The brokers themselves say what they sent to whom: the
``byte-rate`` of each client id (``kafka.server:type=Fetch``), which they keep once a quota is set, here one that nobody
reaches. A byte crosses zones if the broker that sent it is in another rack than the member.

    --kafka V        the brokers' release (4.3.0)
    --seconds N      of reading before the brokers are asked (40; the rates are means of about 10 s)
"""

from __future__ import annotations

import argparse
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Final

from tests.broker.members import Governor, Member, Running, until
from tests.support import java_artifacts

from apportion.governing.governor import CLASS
from apportion.governing.rules_file import GroupRule
from apportion.planning import strategy_of
from apportion.sources.cluster import connect
from apportion.testing import jars
from apportion.testing.broker import BrokerCluster, free_ports, java

RACKS: Final = "abc"
TOPIC, PARTITIONS, REPLICAS = "clicks", 24, 2
MEMBERS_A_RACK: Final = 2
RECORD: Final = b"x" * 1000
SETTINGS: Final = {
    "group.consumer.assignors": f"uniform,{CLASS}",
    "group.consumer.assignment.interval.ms": "100",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "offsets.topic.replication.factor": "3",
}
QUOTA: Final = "consumer_byte_rate=1000000000"


class Writer(threading.Thread):
    """A thousand records a second, to all partitions in turn."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka import Producer

        super().__init__(daemon=True)
        self._client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self.over = threading.Event()

    def run(self) -> None:
        """A hundred every tenth of a second."""
        sent = 0
        while not self.over.wait(0.1):
            for count in range(sent, sent + 100):
                self._client.produce(TOPIC, RECORD, partition=count % PARTITIONS)
            sent += 100
            self._client.poll(0)

    def close(self) -> None:
        """Stop, once all is sent."""
        self.over.set()
        self.join()
        self._client.flush(30)


class Meters:
    """What each broker sent to each client id, by JMX."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._ports = dict(zip(RACKS, free_ports(len(RACKS)), strict=True))
        for rack, broker in zip(RACKS, cluster.brokers, strict=True):
            assert broker.process is not None  # noqa: S101 - it runs
            words = [f"jmxremote.port={self._ports[rack]}", "jmxremote.authenticate=false", "jmxremote.ssl=false"]
            jcmd = Path(jars.java()).resolve().with_name("jcmd")
            command = [str(jcmd), str(broker.process.pid), "ManagementAgent.start", *words]
            subprocess.run(command, check=True, capture_output=True)

    def rates(self) -> dict[tuple[str, str], float]:
        """(broker's rack, member's rack) to bytes a second."""
        sums: dict[tuple[str, str], float] = {}
        for rack, port in self._ports.items():
            url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
            options = ["--jmx-url", url, "--object-name", "kafka.server:type=Fetch,*", "--one-time"]
            printed = java("org.apache.kafka.tools.JmxTool", *options, "--report-format", "properties")
            for zone, rate in re.findall(r"client-id=zone-([a-z])-\d+[^:]*:byte-rate=([\d.E+-]+)", printed):
                sums[rack, zone] = sums.get((rack, zone), 0.0) + float(rate)
        return sums


def report(name: str, rates: dict[tuple[str, str], float]) -> str:
    """A line of the table."""
    total = sum(rates.values())
    across = sum(rate for (sent, read), rate in rates.items() if sent != read)
    return f"| {name} | {total / 1000:,.0f} kB/s | {across / 1000:,.0f} kB/s | {100 * across / max(total, 1):.0f} % |"


def measure(kafka: str, seconds: float) -> None:
    """Both ways on the same cluster, with the same members."""
    jar = java_artifacts.broker_jar()
    with BrokerCluster(list(RACKS), properties=SETTINGS, version=kafka, class_path=[jar]) as brokers:
        brokers.create_topic(TOPIC, PARTITIONS, replication=REPLICAS)
        quota = ["--alter", "--add-config", QUOTA, "--entity-type", "clients", "--entity-default"]
        brokers.tool("kafka.admin.ConfigCommand", *quota)
        meters, writer = Meters(brokers), Writer(brokers.bootstrap)
        writer.start()
        print("| | read | across zones | share |\n|---|---:|---:|---:|", flush=True)
        for assignor in ("uniform", "apportion"):
            members = [
                Member(brokers, f"ads-{assignor}", f"zone-{rack}-{n}", [TOPIC],
                       **{"client.rack": rack, "group.remote.assignor": assignor})
                for rack in RACKS for n in range(MEMBERS_A_RACK)
            ]  # fmt: skip
            with connect(brokers.bootstrap) as cluster:
                rule = GroupRule(re.compile("ads-.*"), strategy_of("sticky", {"order": "racks,balance,moves"}))
                running = Running(Governor(cluster, "ads-apportion", rule)) if assignor == "apportion" else None
                until(lambda members=members: sum(len(member.held) for member in members) == PARTITIONS)
                time.sleep(seconds)
                name = "governed: sticky, racks first" if running else "uniform"
                print(report(name, meters.rates()), flush=True)
                if running:
                    running.stop()
                    running.governor.release()
            for member in members:
                member.close()
        writer.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kafka", default=jars.KAFKA[0])
    parser.add_argument("--seconds", type=float, default=40)
    args = parser.parse_args()
    measure(args.kafka, args.seconds)


if __name__ == "__main__":
    main()
