"""The carriers' heartbeats, each when it is due, on a connection and a thread of their own, independent of all else.

kafka-python runs the connections' loop in a thread. On it runs a line for each coordinator, which sends the heartbeat
of the carrier that has been due longest, so many at once and no more: so joins and publications are spread, a carrier
has one request on its way at most, and a broker that does not answer holds up its own groups alone.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable
from itertools import count
from typing import Any, Final

from apportion.governing.carrier import ELSEWHERE, REFUSED_S, RETRY_S, Carrier
from apportion.sources.cluster import Cluster
from apportion.sources.cluster_round import in_words

AT_ONCE: Final = 64
"""Heartbeats on their way to one coordinator: with fewer, a slow answer holds up those that are due behind it."""
IDLE_S: Final = 0.1
"""How long a line sleeps where nobody is due: by so much a heartbeat may come late."""
GAPS_S: Final = 60
"""For how long the longest gap is remembered."""


class Heart:
    """Sends the carriers' words until it is closed.

    cluster
        A connection that nobody else uses: a long answer would hold up the heartbeats behind it.
    beats
        How many heartbeats were answered.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.beats = cluster, 0
        self._manager: Any = cluster._admin._manager
        self._queues: dict[int, list[tuple[float, int, Carrier]]] = {}
        self._homeless: list[Carrier] = []
        self._home: dict[Carrier, int] = {}
        self._place: dict[Carrier, int] = {}
        self._busy: set[Carrier] = set()
        self._number, self._over = count(), False
        self._gaps: dict[int, float] = {}
        self._carriers: set[Carrier] = set()
        self._manager.call_soon(self._find_homes)

    def add(self, carrier: Carrier) -> None:
        """Let a carrier beat from now on, until it is gone."""
        if carrier not in self._carriers:
            self._carriers.add(carrier)
            self._homeless.append(carrier)

    def wake(self, carriers: Iterable[Carrier]) -> None:
        """Carriers have something to say, or leave: their next heartbeat is due now."""
        woken = [carrier for carrier in carriers if carrier in self._home]

        def push() -> None:
            for carrier in woken:
                if (node := self._home.get(carrier)) is not None:
                    self._push(node, carrier)

        self._manager.call_soon(push)

    def close(self, patience_s: float = 5.0) -> None:
        """End: wait for those that are leaving."""
        self.wait([carrier for carrier in self._carriers if carrier.leaving is not None], patience_s)
        self.stop()

    def stop(self) -> None:
        """Send nothing more."""
        self._over = True

    def wait(self, carriers: Iterable[Carrier], patience_s: float) -> bool:
        """Whether all of them are settled, or gone if they are leaving, within so many seconds."""
        waited, ends_s = list(carriers), time.monotonic() + patience_s
        while not (ready := all(c.gone if c.leaving is not None else c.settled for c in waited)):
            if time.monotonic() >= ends_s:
                break
            time.sleep(0.02)
        return ready

    def longest_gap_s(self) -> float:
        """The longest time between two heartbeats of a carrier in the last minute, or since its last one."""
        now_s = time.monotonic()
        self._gaps = {second: gap_s for second, gap_s in list(self._gaps.items()) if second >= now_s - GAPS_S}
        waiting = (now_s - c.beaten_s for c in list(self._carriers) if c.joined and c.leaving is None)
        return max([0.0, *self._gaps.values(), *waiting])

    # -- on the connections' thread ---------------------------------------------------------------------------------

    async def _find_homes(self) -> None:
        """Send each carrier that has no coordinator, or lost it, to the line of the one that it has now."""
        while not self._over:
            now_s, all_of_them = time.monotonic(), self._homeless
            self._homeless = [carrier for carrier in all_of_them if carrier.due_s > now_s]
            if waiting := [carrier for carrier in all_of_them if carrier.due_s <= now_s and not carrier.gone]:
                troubles = await self._located(sorted({carrier.group for carrier in waiting}))
                for carrier in waiting:
                    self._house(carrier, troubles.get(carrier.group, ""))
            await self._manager._net.sleep(IDLE_S)

    def _house(self, carrier: Carrier, trouble: str) -> None:
        from kafka.protocol.metadata import CoordinatorType

        node = self._manager.cluster._coordinators.get((CoordinatorType.GROUP, carrier.group))
        if trouble or node is None:
            carrier.trouble = f"{carrier.group} has no coordinator for this governor: {trouble or 'no broker is named'}"
            carrier.due_s = time.monotonic() + REFUSED_S
            self._homeless.append(carrier)
            return
        if node not in self._queues:
            self._queues[node] = []
            self._manager.call_soon(self._line, node)
        self._home[carrier] = node
        self._push(node, carrier)

    async def _located(self, groups: list[str]) -> dict[str, str]:
        """Have the client know who coordinates groups; for each unknown one, why."""
        try:
            await self.cluster._admin._find_coordinator_ids(groups)
        except Exception as error:
            if len(groups) == 1:
                return {groups[0]: in_words(error)}
            # One group that this user may not read, or that has no coordinator, is an error of the whole question.
            return {group: why for one in groups for group, why in (await self._located([one])).items()}
        return {}

    def _push(self, node: int, carrier: Carrier) -> None:
        """Line a carrier up; of several places that it has, the last counts."""
        self._place[carrier] = next(self._number)
        heapq.heappush(self._queues[node], (carrier.due_s, self._place[carrier], carrier))

    def _next(self, queue: list[tuple[float, int, Carrier]]) -> Carrier | None:
        """Who has been due longest."""
        while queue and queue[0][0] <= time.monotonic():
            _, place, carrier = heapq.heappop(queue)
            if self._place.get(carrier) == place:
                del self._place[carrier]
                if carrier not in self._busy:  # it lines up again when its answer is there
                    return carrier
        return None

    async def _line(self, node: int) -> None:
        queue, on_their_way = self._queues[node], 0

        async def turn(carrier: Carrier) -> None:
            nonlocal on_their_way
            try:
                at_home = carrier.gone or await self._beat(node, carrier)
            finally:
                on_their_way -= 1
            self._line_up(node, carrier, at_home)

        while not self._over:
            carrier = self._next(queue) if on_their_way < AT_ONCE else None
            if carrier is None:
                await self._manager._net.sleep(IDLE_S)
                continue
            on_their_way += 1
            self._manager.call_soon(turn, carrier)

    def _line_up(self, node: int, carrier: Carrier, at_home: bool) -> None:
        """After its turn: again here, or at another coordinator, or nowhere."""
        if carrier.gone:
            self._carriers.discard(carrier)
            self._home.pop(carrier, None)
        elif at_home:
            self._push(node, carrier)
        else:
            self._home.pop(carrier, None)
            self.cluster.forget_coordinator(carrier.group)
            self._homeless.append(carrier)

    async def _beat(self, node: int, carrier: Carrier) -> bool:
        """One heartbeat; whether its coordinator is still there."""
        from apportion.sources.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

        self._busy.add(carrier)
        fields, last_s = carrier.fields(), carrier.beaten_s if carrier.joined else 0.0
        try:
            answer = await self._manager.send(ConsumerGroupHeartbeatRequest(**fields), node_id=node)
        except Exception as error:
            carrier.trouble = f"the coordinator of {carrier.group} did not answer: {in_words(error)}"
            carrier.due_s = time.monotonic() + RETRY_S
            return False
        finally:
            self._busy.discard(carrier)
        carrier.take(fields, answer.to_dict(), self._manager._conns.get(node))
        self.beats += 1
        if last_s:
            now_s = time.monotonic()
            self._gaps[int(now_s)] = max(self._gaps.get(int(now_s), 0.0), now_s - last_s)
        return answer.error_code not in ELSEWHERE
