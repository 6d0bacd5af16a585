"""Text becomes JSON strictly: what other readers would not take is refused, unless it is asked for."""

from __future__ import annotations

import math

import pytest

from apportion.errors import BadInput
from apportion.model.json_checks import read_json


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_is_refused(word: str) -> None:
    with pytest.raises(BadInput, match=word):
        read_json(f'{{"a": [{word}]}}')


def test_where_asked_for_numbers_need_not_be_finite() -> None:
    assert math.isinf(read_json("[-Infinity]", finite=False)[0])
