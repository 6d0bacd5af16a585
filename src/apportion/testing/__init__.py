"""Tools for the author of a strategy or a client: promises to check, a real broker, Java peers."""

from __future__ import annotations

from apportion.testing.contract import ContractBroken, check_assignor
from apportion.testing.groups import Kinds, groups, many_groups, random_group

__all__ = ["ContractBroken", "Kinds", "check_assignor", "groups", "many_groups", "random_group"]
