"""The parts of ``apportion.clients.tasks``.

stores, state_dir, restore, log_offsets
    A task's state: its store, the folder of a process's stores, and how a changelog brings one up to date.
delivery
    Commits: at least once, or exactly once.
input_watch
    Which inputs flow, and what the log says of gaps and waits.
task_bridge
    What members of such a group say, and how their leader plans it.
"""
