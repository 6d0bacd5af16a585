"""Which strategy counts if none is named: in our calls and commands, and in Kafka's own clients and brokers."""

from typing import Final

DEFAULT_ASSIGNOR: Final = "cooperative-sticky"
DEFAULT_EAGER: Final = "sticky"
"""The same where a client gives everything up at each rebalance."""
PROTOCOLS: Final = {"eager": "range", "cooperative": "cooperative-sticky", "consumer": "broker-uniform"}
"""Each protocol with the strategy that Kafka's consumers use under it where nothing else is said."""
