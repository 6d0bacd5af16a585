"""The network between hosts and brokers: bytes in order on each connection, in any order across them.

A message takes a time drawn from the seed, now and then a long one. While a host is partitioned from a broker, bytes
wait, as TCP sends them again; a dropped connection loses what is on its way, so that a request may be carried out and
its answer lost.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

from apportion.testing.simulation.kernel import Host, Label, World

LATENCY_S: Final = (0.0003, 0.002)
SLOW: Final = (0.02, 0.3)
"""Chance of a message that is slow, and its longest time in seconds."""
CHANGING: Final = frozenset({0, 8, 11, 12, 13, 14, 22, 24, 25, 26, 28, 68})
"""API keys of requests that change a log, a group or a transaction."""


class Direction:
    """Bytes one way: each arrives after the one before it."""

    def __init__(self, link: Link, arrive: Callable[[bytes], None], line: str) -> None:
        self.link, self.arrive, self.line = link, arrive, line
        self._last_us = 0

    def send(self, octets: bytes) -> None:
        """Deliver later, unless the connection is gone by then."""
        world = self.link.network.world
        self._last_us = max(self._last_us, world.us + int(self.link.network.latency_s() * 1e6))
        label = self._label(octets) if world.choose else None
        world.at((self._last_us - world.us) / 1e6, lambda: self._deliver(octets), label)

    def _label(self, octets: bytes) -> Label:
        up = self is self.link.up
        counts = (int.from_bytes(octets[4:6], "big") if up else self.link.server.key) in CHANGING
        into = self.link.socket.host.name if not up else "cluster" if counts else self.line
        return Label(into, self.line, zlib.crc32(octets), counts, lambda: not self.link.lost)

    def _deliver(self, octets: bytes) -> None:
        if self.link.lost:
            return
        if self.link.network.parted(self.link.socket.host, self.link.node):
            self.link.network.waiting.append(lambda: self._deliver(octets))
        else:
            self.arrive(octets)


class Link:
    """One connection between a client's socket and a broker."""

    def __init__(self, network: Network, socket: Any, node: Any) -> None:
        self.network, self.socket, self.node = network, socket, node
        self.lost = False
        self.server = node.accept(self)
        socket.host.connections += 1
        name = f"{socket.host.name} {socket.host.connections}"
        self.up = Direction(self, self.server.receive, f"{name} up")
        self.down = Direction(self, socket.arrive, f"{name} down")

    def close_from_client(self) -> None:
        """The client closed: the broker notices after the bytes that were sent before."""
        self.up.send(b"")

    def drop(self) -> None:
        """Lose all that is on its way; both ends notice."""
        if not self.lost:
            self.lost = True
            self.network.links.remove(self)
            self.server.receive(b"")
            if self.socket.state == "open":
                self.socket.arrive(b"")


class Network:
    """All connections, and who cannot reach whom."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.nodes: dict[tuple[str, int], Any] = {}
        self.links: list[Link] = []
        self.waiting: list[Callable[[], None]] = []
        self._parted: set[tuple[str, int]] = set()
        world.network = self  # type: ignore[attr-defined]

    def latency_s(self) -> float:
        """Seconds that one message takes."""
        chance, longest = SLOW
        return self.world.random.uniform(LATENCY_S[0], longest if self.world.random.random() < chance else LATENCY_S[1])

    def connect(self, socket: Any) -> None:
        """Open a connection after a while; without a broker at that address it is refused."""
        self.world.at(self.latency_s(), lambda: self._connected(socket))

    def _connected(self, socket: Any) -> None:
        if socket.state != "connecting":
            return
        node = self.nodes.get(socket.address)
        if node is not None and self.parted(socket.host, node):
            self.waiting.append(lambda: self._connected(socket))
            return
        if node is None or not node.up:
            socket.state = "refused"
        else:
            socket.state, socket.link = "open", Link(self, socket, node)
            self.links.append(socket.link)
        socket.changed()

    def parted(self, host: Host, node: Any) -> bool:
        """Whether nothing gets from one to the other now."""
        return (host.name, node.number) in self._parted

    def part(self, host: str, node: int) -> None:
        """Nothing gets from that host to that broker or back, until ``heal``."""
        self._parted.add((host, node))

    def heal(self) -> None:
        """All reach all again; waiting messages arrive."""
        self._parted.clear()
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call()

    def drop(self, host: Host | None = None, node: Any = None) -> int:
        """Drop the connections of a host, or to a broker; how many those were."""
        gone = [x for x in self.links if (host is None or x.socket.host is host) and (node is None or x.node is node)]
        for link in gone:
            link.drop()
        return len(gone)
