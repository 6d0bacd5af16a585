"""The definition of a strategy: its traits with their defaults, the facts it asks for, its codec, and the registry.

An author imports from here whatever a strategy of their own needs beside ``apportion.Group`` and ``apportion.Answer``.
"""

from __future__ import annotations

from apportion.model.facts import CAPACITY, PRIORITY, UNSET, Fact
from apportion.strategy.assignor import Assignor
from apportion.strategy.codec import Claim, Holding, InSubscription, InUserData, Stateless, UserDataCodec
from apportion.strategy.cooperation import Cooperation
from apportion.strategy.registry import find, known
from apportion.strategy.settings import changed_settings, settings_of
from apportion.strategy.traits import Traits, traits_of
from apportion.wire.subscription import Subscription

__all__ = [
    "CAPACITY",
    "PRIORITY",
    "UNSET",
    "Assignor",
    "Claim",
    "Cooperation",
    "Fact",
    "Holding",
    "InSubscription",
    "InUserData",
    "Stateless",
    "Subscription",
    "Traits",
    "UserDataCodec",
    "changed_settings",
    "find",
    "known",
    "settings_of",
    "traits_of",
]
