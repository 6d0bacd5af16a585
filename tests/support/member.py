"""A Python member of a group in a process of its own; it tells what happens to it in JSON lines.

    python -m tests.support.member '{"client": "kafka-python", "bootstrap": "127.0.0.1:9092", "group": "g",
                                         "topics": ["clicks"], "strategies": ["cooperative-sticky"]}'

Fields besides these: ``name``, ``instance`` (static id), ``rack``, ``priority``, ``facts``, ``settings`` (the
strategy's), ``session_ms`` (6000), ``beat_ms`` (a fifth of it), ``commit_ms`` (0: commit after each batch; -1: never;
it commits what is done when partitions are revoked and when it leaves, too), ``work_ms`` (0: how long it works on a
record after it has read it; confluent's member ignores it), ``poll_ms`` (100), ``poll_records`` (200), ``pause_ms``
(between polls), ``client`` ("kafka-python", "aiokafka", "confluent"), ``plain`` (true: the client's own strategies of
those names), ``consumer`` (more of the client's own arguments), ``lag`` (true: a lag feed), ``lag_s`` (10: seconds
between two fetches), ``acting`` (the numbers of ``Acting``), ``admin`` (the feed's arguments), ``plans`` (true:
``planned`` tells the ``assignment`` too), ``own_log_level`` ("INFO").

Lines out: ``{"at": seconds, "event": ..., "member": name, ...}`` with the events

    joined      the first assignment: member_id
    assigned    generation, partitions (all that it has now)
    revoked     partitions, before it gives them up; lost: the same, after it was expelled
    read        topic, partition, first, last: offsets of one batch
    committed   offsets {"clicks-0": 5}; or refused: why
    planned     what a leader's ``on_plan`` hook got
    error       what went wrong; left: it said good-bye

Lines in: ``leave``, ``topics a,b``. ``PythonMember`` starts one and collects its lines.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.members import aio_kafka, confluent, kafka_python
from tests.support.members.common import Orders, Teller

from apportion.testing import processes

CLIENTS = {"kafka-python": kafka_python.run, "aiokafka": aio_kafka.run, "confluent": confluent.run}
AWAY = ("KafkaTimeoutError", "KafkaConnectionError", "NoBrokersAvailable")
"""What a client raises while no broker answers."""


class PythonMember:
    """A member process: its events so far, and what it owns.

    process
        Where and with what environment it runs, as ``subprocess`` takes it: another version of ours has its own.
    """

    def __init__(self, log: Path | None = None, process: Mapping[str, Any] | None = None, **config: Any) -> None:
        self.config = config
        self.name = str(config.get("name", config.get("client", "kafka-python")))
        self.events: list[dict[str, Any]] = []
        self.log = log
        self._log = log.open("ab") if log else None
        command = [sys.executable, "-m", "tests.support.member", json.dumps(config)]
        self.process: subprocess.Popen[Any] = processes.start(
            command, log=self._log or subprocess.DEVNULL, stdout=subprocess.PIPE, **(process or {})
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def of(self, event: str) -> list[dict[str, Any]]:
        """All events of a kind so far."""
        return [e for e in list(self.events) if e["event"] == event]

    @property
    def owned(self) -> dict[str, list[int]]:
        """What it owns by its own word."""
        for event in reversed(list(self.events)):
            if event["event"] == "assigned":
                return {topic: sorted(ids) for topic, ids in event["partitions"].items()}
            if event["event"] in ("lost", "left"):
                return {}
        return {}

    @property
    def generation(self) -> int:
        """Of its newest assignment; -1 before."""
        seen = self.of("assigned")
        return int(seen[-1]["generation"]) if seen else -1

    @property
    def member_id(self) -> str:
        """As the broker named it last."""
        seen = self.of("assigned")
        return str(seen[-1]["member_id"]) if seen else ""

    def say(self, line: str) -> None:
        """Send a line to the process."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def leave(self, patience_s: float = 60) -> None:
        """Close the consumer in good order and end."""
        try:
            self.say("leave")
            self.process.wait(patience_s)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            pass
        self.close()

    def kill(self) -> None:
        """Kill -9: it says nothing to anybody."""
        self.close()

    def signal(self, number: int) -> None:
        """SIGSTOP, SIGCONT."""
        self.process.send_signal(number)

    def close(self) -> None:
        """End the process if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)
        processes.end(self.process)
        if self._log:
            self._log.close()


def main() -> int:
    """Run one member."""
    config = json.loads(sys.argv[1])
    logging.basicConfig(level=config.get("log_level", "INFO"), format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("apportion").setLevel(config.get("own_log_level", "INFO"))
    tell, orders = Teller(str(config.get("name", config.get("client", "kafka-python")))), Orders()
    while True:
        try:
            CLIENTS[config.get("client", "kafka-python")](config, tell, orders)
        except Exception as error:
            tell("error", why=f"{type(error).__name__}: {error}")
            # As a service's supervisor would: a broker that is away comes back.
            if type(error).__name__ not in AWAY:
                logging.getLogger(__name__).exception("the member ended")
                return 1
            time.sleep(0.5)
        else:
            return 0


if __name__ == "__main__":
    sys.exit(main())
