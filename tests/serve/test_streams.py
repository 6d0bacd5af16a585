"""What a page's stream sends while rounds end: none is left for the next one, however slowly the page reads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from anyio import CapacityLimiter

from apportion.serve.app import Hub, Server


def test_a_round_that_ends_while_a_slow_page_takes_the_last_is_sent_next() -> None:
    """Not a round later; and no more than once."""
    state: dict[str, Any] = {"round": 1}

    def event(before: Any) -> tuple[bytes, Any]:
        return b"round %d" % state["round"], {}

    async def scene() -> list[bytes]:
        server = object.__new__(Server)
        server.hub, server._limiter = Hub(), CapacityLimiter(1)
        server.answers = SimpleNamespace(event=event, group_event=lambda name: b"pictures")  # type: ignore[assignment]
        server.hub.attach()
        stream = server._stream("g", whole=True)
        sent = [await anext(stream), await anext(stream)]
        for number in (2, 3):  # both while the page still reads the first
            state["round"] = number
            server.hub.wake(None)  # type: ignore[arg-type]
            await asyncio.sleep(0.01)
        sent += [await anext(stream), await asyncio.wait_for(anext(stream), 60), await anext(stream)]
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        state["round"] = 4
        server.hub.wake(None)  # type: ignore[arg-type]
        sent.append(await asyncio.wait_for(waiting, 60))
        server.hub.close()
        sent += [piece async for piece in stream]
        return sent

    assert asyncio.run(scene()) == [b"retry: 3000\n\n", b"round 1", b"pictures", b"round 3", b"pictures", b"round 4"]


def test_whoever_waits_hears_at_once_of_rounds_that_ended_before_and_else_of_the_next() -> None:
    async def scene() -> list[bool | int]:
        hub = Hub()
        hub.wake(None)  # type: ignore[arg-type]  # nobody's loop yet
        hub.attach()
        found: list[bool | int] = [await hub.wait(0, 0)]
        for _ in range(3):
            hub.wake(None)  # type: ignore[arg-type]
        found.append(await hub.wait(0, 60))
        await asyncio.sleep(0)
        found += [hub.rounds, await hub.wait(1, 0), await hub.wait(2, 0), await hub.wait(3, 0)]
        later = asyncio.ensure_future(hub.wait(3, 60))
        await asyncio.sleep(0)
        hub.close()
        return [*found, await later, hub.rounds, hub.closed]

    assert asyncio.run(scene()) == [False, True, 3, True, True, False, True, 4, True]
