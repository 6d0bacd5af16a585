"""The carriers' heartbeats, each when it is due, on a connection and a thread of their own, whatever else is going on.

kafka-python runs the connections' loop in a thread. On it run a few lanes for each coordinator. A lane takes the
carrier that has been due longest, sends its heartbeat and waits for the answer: so joins and publications are spread,
a carrier has one request on its way at most, and a broker that does not answer holds up its own groups alone.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable
from itertools import count
from typing import Any, Final

from apportion.governing.carrier import ELSEWHERE, REFUSED_S, RETRY_S, Carrier
from apportion.inputs.cluster import Cluster
from apportion.inputs.cluster_round import in_words

LANES: Final = 4
"""For each coordinator; the client takes five requests on a connection at once."""
IDLE_S: Final = 0.1
"""How long a lane sleeps that finds nobody due: by so much a heartbeat may come late."""


class Heart:
    """Sends what carriers have to say until it is closed.

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
        self._longest_s = 0.0
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
        """The longest time between two heartbeats of a carrier since this was last asked, and of the one that waits."""
        now_s, longest_s = time.monotonic(), self._longest_s
        self._longest_s = 0.0
        return max([longest_s, *(now_s - c.beaten_s for c in list(self._carriers) if c.joined and c.beaten_s)])

    # -- on the connections' thread ---------------------------------------------------------------------------------

    async def _find_homes(self) -> None:
        """Send each carrier that has no coordinator, or lost it, to the lanes of the one that it has now."""
        while not self._over:
            now_s, all_of_them = time.monotonic(), self._homeless
            self._homeless = [carrier for carrier in all_of_them if carrier.due_s > now_s]
            if waiting := [carrier for carrier in all_of_them if carrier.due_s <= now_s and not carrier.gone]:
                await self._house(waiting)
            await self._manager._net.sleep(IDLE_S)

    async def _house(self, waiting: list[Carrier]) -> None:
        from kafka.protocol.metadata import CoordinatorType

        groups = sorted({carrier.group for carrier in waiting})
        troubles = await self._located(groups)
        # One group that this user may not read, or that has no coordinator, is an error of the whole question.
        for group in groups if troubles and len(groups) > 1 else ():
            troubles[group] = (await self._located([group])).get(group, "")
        coordinators = self._manager.cluster._coordinators
        for carrier in waiting:
            if trouble := troubles.get(carrier.group, ""):
                carrier.trouble = f"{carrier.group} has no coordinator for this governor: {trouble}"
                carrier.due_s = time.monotonic() + REFUSED_S
                self._homeless.append(carrier)
                continue
            node = coordinators[CoordinatorType.GROUP, carrier.group]
            if node not in self._queues:
                self._queues[node] = []
                for _ in range(LANES):
                    self._manager.call_soon(self._lane, node)
            self._home[carrier] = node
            self._push(node, carrier)

    async def _located(self, groups: list[str]) -> dict[str, str]:
        """Have the client know who coordinates groups; why not, of each, if it is not told."""
        from kafka import errors

        try:
            await self.cluster._admin._find_coordinator_ids(groups)
        except errors.KafkaError as error:
            return dict.fromkeys(groups, in_words(error))
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

    async def _lane(self, node: int) -> None:
        queue = self._queues[node]
        while not self._over:
            carrier = self._next(queue)
            if carrier is None:
                await self._manager._net.sleep(IDLE_S)
                continue
            at_home = carrier.gone or await self._beat(node, carrier)
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
        from kafka import errors

        from apportion.inputs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

        fields, last_s = carrier.fields(), carrier.beaten_s if carrier.joined else 0.0
        self._busy.add(carrier)
        try:
            answer = await self._manager.send(ConsumerGroupHeartbeatRequest(**fields), node_id=node)
        except errors.KafkaError as error:
            carrier.trouble = f"the coordinator of {carrier.group} did not answer: {in_words(error)}"
            carrier.due_s = time.monotonic() + RETRY_S
            return False
        finally:
            self._busy.discard(carrier)
        carrier.take(fields, answer.to_dict(), self._manager._conns.get(node))
        self.beats += 1
        if last_s:
            self._longest_s = max(self._longest_s, time.monotonic() - last_s)
        return answer.error_code not in ELSEWHERE
