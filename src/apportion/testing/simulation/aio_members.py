"""A member's program with aiokafka: the same loop of polls and commits as ``members.reading``, on a loop of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from apportion.clients.aio_kafka import assignor
from apportion.testing.simulation.checks import Checks
from apportion.testing.simulation.loops import Loop
from apportion.testing.simulation.members import POLL_MS, QUICK, Recording
from apportion.testing.simulation.stage import Process, Program

NOT_ITS_OWN = {"metrics_enabled"}
"""Settings that kafka-python alone has."""


class _Listener(Recording, ConsumerRebalanceListener):  # type: ignore[misc]
    pass


def reading(strategy: str, topics: list[str], checks: Checks, record_s: float = 0.0) -> Program:
    """A member that polls, works and commits after each poll."""

    def program(process: Process) -> None:
        Loop().run_until_complete(_read(process))

    async def _read(process: Process) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=process.stage.cluster.bootstrap,
            client_id=process.member,
            group_id="group",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor(strategy)],
            **{name: value for name, value in QUICK.items() if name not in NOT_ITS_OWN},
        )
        process.member_id = lambda: consumer._coordinator.member_id  # type: ignore[attr-defined]
        listener = _Listener(process, checks, None)
        consumer.subscribe(topics, listener=listener)
        started = False
        try:
            while not process.leaving:
                try:
                    started = started or await consumer.start() is None
                    await _turn(process, consumer)
                except KafkaError as error:
                    process.stage.world.note("refused", member=process.name, error=type(error).__name__)
                    await asyncio.sleep(0.1)
        finally:
            process.leaving = True
            if not process.stage.world.closing:
                await _stop(process, consumer)
                listener.give_up(None, "closed")

    async def _stop(process: Process, consumer: Any) -> None:
        """Leave; if a fetch has just failed, the client's ``stop`` raises the end of its own task."""
        try:
            await consumer.stop()
        except asyncio.CancelledError:
            process.stage.world.note("refused", member=process.name, error="CancelledError")
            await consumer._client.close()

    async def _turn(process: Process, consumer: Any) -> None:
        records = await consumer.getmany(timeout_ms=POLL_MS)
        for pair, batch in sorted(records.items()):
            checks.given(process, tuple(pair), [record.offset for record in batch])
        process.pause(record_s * sum(map(len, records.values())))
        if records:
            await consumer.commit()

    return program
