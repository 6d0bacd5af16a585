"""A process of tasks that count words in the cluster that lives; arguments: bootstrap, application, folder."""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Count until the process is ended."""
    from apportion.clients.tasks import TaskRunner
    from apportion.tasks.settings import TaskSettings
    from apportion.tasks.topology import Subtopology, Topology

    bootstrap, application, folder = sys.argv[1:]
    runner = TaskRunner(
        Topology.of(Subtopology(("words",), f"{application}-changelog")),
        application=application, bootstrap_servers=bootstrap, state_dir=folder,
        settings=TaskSettings(num_standby_replicas=1),
        consumer={"client_id": f"words-{folder[-1]}"},
    )  # fmt: skip
    with runner:
        while True:
            for task, records in runner.poll(max_records=500).items():
                state = runner.state(task)
                for record in records:
                    state.put(record.value, str(int(state.get(record.value) or 0) + 1).encode())
            runner.commit()
            time.sleep(0.2)


if __name__ == "__main__":
    main()
