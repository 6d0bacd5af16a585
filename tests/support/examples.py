"""How many examples hypothesis tries: as many as a test says, and few in ``make quick``."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

QUICK = "APPORTION_QUICK"
"""Set to 1 by ``pytest --quick``, for every process of it."""
FEW = 10

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("patient"), max_examples=FEW)


def few(count: int) -> int:
    """So many seeded groups, or a tenth of them in ``make quick``."""
    return max(1, count // 10) if os.environ.get(QUICK) == "1" else count


def examples(count: int) -> settings:
    """So many examples, or ``FEW`` in ``make quick``: ``@examples(300)``."""
    return settings(max_examples=min(count, FEW) if os.environ.get(QUICK) == "1" else count, deadline=None)


def thorough(*values: Any) -> Any:
    """A case of a promise that another case of the same test keeps already; ``make thorough`` tries it too."""
    return pytest.param(*values, marks=pytest.mark.thorough)
