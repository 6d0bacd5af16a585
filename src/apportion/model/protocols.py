"""The protocols of groups, by the names that Kafka has for them."""

from __future__ import annotations

from typing import Final

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"
SIMPLE: Final = "simple"
"""A group that commits, and never had a member."""
OTHERS: Final = frozenset({SHARE, STREAMS})
"""Those of groups that no consumer's strategy plans."""
