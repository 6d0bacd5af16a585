"""What a user states that members want: of all, of one by any of its names, and when nothing is assumed any more."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.sighted import raw, sighting

from apportion.errors import ApportionError
from apportion.sighting.sighting import Sighting
from apportion.sources.pasted import ASSUMED
from apportion.sources.subscribing import subscribed

MEMBERS = {
    "m-1": {"topics": ["clicks"], "client_id": "shop", "instance_id": "pod-0", "owned": {"clicks": [0]}},
    "m-2": {"topics": ["clicks"], "client_id": "mail"},
    "m-3": {"topics": ["orders"], "client_id": "mail"},
}
TOPICS = {"clicks": 2, "orders": 1, "views": 1}


def stated(*texts: str, assumed: str = "wide") -> Sighting:
    """The group after these statements, made from one whose subscriptions were assumed."""
    given: dict[str, Any] = {"group": "g", "topics": TOPICS, "members": MEMBERS}
    before = sighting(given, "Stable", notes=["odd", ASSUMED], assumed=assumed)
    after = subscribed(before, texts)
    assert MEMBERS["m-1"]["topics"] == ["clicks"], "what was read stays"
    others = [{**fields, "topics": None} for group in (before, after) for fields in raw(group)["members"].values()]
    assert others[:3] == others[3:]
    assert (after.state, raw(after)["topics"], after.group.members) == ("Stable", raw(before)["topics"], tuple(MEMBERS))
    return after


@pytest.mark.parametrize(
    ("texts", "wanted", "known"),
    [
        (["orders, clicks,,orders"], [["clicks", "orders"]] * 3, True),
        (["m-2=views"], [["clicks"], ["views"], ["orders"]], False),
        (["pod-0=views", "m-1=orders"], [["orders"], ["clicks"], ["orders"]], False),
        (["m-1=views", "pod-0=views", "shop=orders"], [["orders"], ["clicks"], ["orders"]], False),
        (["shop= views "], [["views"], ["clicks"], ["orders"]], False),
        (["m-1=views", "m-2=views", "m-3=clicks"], [["views"], ["views"], ["clicks"]], True),
        (["views", "m-2=clicks,orders"], [["views"], ["clicks", "orders"], ["views"]], True),
        (["m-2=clicks,orders", "views"], [["views"]] * 3, True),
    ],
)
def test_members_want_what_is_stated_last_and_others_what_they_did(
    texts: list[str], wanted: list[list[str]], known: bool
) -> None:
    after = stated(*texts)
    assert [fields["topics"] for fields in raw(after)["members"].values()] == wanted
    assert (after.assumed, list(after.notes)) == (("", ["odd"]) if known else ("wide", ["odd", ASSUMED]))
    told = stated(*texts, assumed="")
    assert (told.assumed, list(told.notes)) == ("", ["odd"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "--subscribe: found ''; needed TOPIC,... or MEMBER=TOPIC,..., as in pod-0=clicks,orders."),
        ("m-1= , ", "--subscribe: found 'm-1= , '; needed TOPIC,... or MEMBER=TOPIC,..., as in pod-0=clicks,orders."),
        (
            "," * 99,
            f"--subscribe: found {',' * 60!r}; needed TOPIC,... or MEMBER=TOPIC,..., as in pod-0=clicks,orders.",
        ),
        ("m-4=clicks", "'m-4'"),
        ("mail=clicks", "mail"),
    ],
)
def test_no_topic_and_nobody_are_refused(text: str, words: str) -> None:
    with pytest.raises(ApportionError) as refused:
        stated("views", text)
    assert words in str(refused.value)
