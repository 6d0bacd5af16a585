"""The class for the brokers applies a plan as the rule in Python does, and survives whatever stands in a rack id."""

from __future__ import annotations

import base64
import random
import zlib
from typing import Any

import pytest

from apportion.errors import ApportionError
from apportion.wire import plan_text
from apportion.wire.plan_text import NUMBERS_WHOLE, RELEASE, TOPICS_WHOLE, GovernedPlan, MemberKey

from .conftest import Ask, Json
from .reference import apply, id_text

KEY = b"a key that signs plans"
CARRIER: Json = {"instance": "apportion-governor", "topics": []}


def some_group(r: random.Random, tag: str) -> tuple[dict[str, Json], dict[str, int]]:
    """Members with subscriptions, instance ids and what they had before, and the topics' sizes."""
    topics = {id_text(r.randbytes(16)): r.randint(0, 7) for _ in range(r.randint(1, 4))}
    members: dict[str, Json] = {}
    for n in range(r.randint(1, 7)):
        wants = r.sample(list(topics), r.randint(0, len(topics))) if r.random() < 0.4 else list(topics)
        members[f"{r.choice(('m', 'ü', '😀'))}{n}-{tag}"] = {
            "topics": wants,
            **({"instance": f"i{n}-{tag}"} if r.random() < 0.4 else {}),
            "previous": {},
        }
    for topic, size in topics.items():
        for p in range(size + 2):
            if r.random() < 0.7:
                r.choice(list(members.values()))["previous"].setdefault(topic, []).append(p)
    return members, topics


def some_plan(r: random.Random, members: dict[str, Json], topics: dict[str, int], number: int = 7) -> GovernedPlan:
    """A plan that knows most members, and some that are gone."""
    known = [MemberKey(m, f.get("instance")) for m, f in members.items() if r.random() < 0.8]
    known = known or [MemberKey(m, f.get("instance")) for m, f in members.items()]
    known += [MemberKey(f"gone-{n}") for n in range(r.randint(0, 2))]
    r.shuffle(known)
    owners = {
        base64.urlsafe_b64decode(topic + "=="): [r.randint(-1, len(known) - 1) for _ in range(size + r.randint(-1, 1))]
        for topic, size in topics.items()
        if size and r.random() < 0.8
    }
    rank = tuple(r.sample(range(len(known)), r.randint(0, len(known))))
    promise = r.choice((0, 0, TOPICS_WHOLE, NUMBERS_WHOLE))
    return GovernedPlan(number, promise, tuple(known), rank, owners)


def with_plan(members: dict[str, Json], racks: list[str]) -> dict[str, Json]:
    """The group's members and one carrier for each rack id."""
    return members | {f"carrier-{n}": CARRIER | {"rack": rack} for n, rack in enumerate(racks)}


def held(answer: Json) -> dict[str, dict[str, list[int]]]:
    """What the members hold; a carrier must hold nothing."""
    assert "error" not in answer, answer
    given: dict[str, dict[str, list[int]]] = answer["assignment"]
    assert all(not share for member, share in given.items() if member.startswith("carrier-"))
    return {member: share for member, share in given.items() if not member.startswith("carrier-")}


def sound(members: dict[str, Json], topics: dict[str, int], given: dict[str, dict[str, list[int]]]) -> None:
    """Every wanted partition to exactly one member that wants it, and nothing else to anybody."""
    places = [(t, p) for share in given.values() for t, ids in share.items() for p in ids]
    wanted = {
        (t, p) for t, size in topics.items() for p in range(size) if any(t in m["topics"] for m in members.values())
    }
    assert len(places) == len(set(places))
    assert set(places) == wanted
    assert all(t in members[m]["topics"] for m, share in given.items() for t in share)


def test_a_plan_is_applied_as_the_rule_says(governed: Ask) -> None:
    r = random.Random(41)
    asked = []
    for n in range(1500):
        members, topics = some_group(r, str(n))
        plan = some_plan(r, members, topics)
        asked.append((members, topics, plan))
    groups = [{"members": with_plan(m, plan_text.texts(plan, "carrier-0")), "partitions": t} for m, t, plan in asked]
    for (members, topics, plan), answer in zip(asked, governed(groups), strict=True):
        given = held(answer)
        sound(members, topics, given)
        assert given == apply(plan, members, topics), (members, topics, plan)


def test_a_group_that_never_had_a_plan_is_uniforms(governed: Ask) -> None:
    """Equal subscriptions: loads that differ by one at most, whatever one member had before."""
    topic = id_text(b"t" * 16)
    members = {
        f"fresh-{n}": {"topics": [topic], "previous": {topic: list(range(12))} if n == 0 else {}} for n in range(3)
    }
    [answer] = governed([{"members": members, "partitions": {topic: 12}}])
    assert sorted(len(share[topic]) for share in held(answer).values()) == [4, 4, 4]


def test_when_the_carrier_is_gone_the_plan_is_remembered_and_its_rank_replaces_the_dead(governed: Ask) -> None:
    """Failover: 24 partitions on the first, on the next by rank when it dies, there still when a newcomer joins."""
    topics = {id_text(bytes([n]) * 16): 12 for n in (1, 2)}
    keys = [MemberKey(f"pod-{n}-memory") for n in range(3)]
    owners = {base64.urlsafe_b64decode(t + "=="): [0] * 12 for t in topics}
    plan = GovernedPlan(3, TOPICS_WHOLE, tuple(keys), (0, 2, 1), owners)

    def members(*ids: str, had: dict[str, Any] | None = None) -> dict[str, Json]:
        return {m: {"topics": list(topics), "previous": (had or {}).get(m, {})} for m in ids}

    a, b, c = (key.member_id for key in keys)
    everything = {t: list(range(12)) for t in topics}
    release = GovernedPlan(4, RELEASE, tuple(map(MemberKey, ("new-memory", b, c))), (), {})
    steps = [
        with_plan(members(a, b, c), plan_text.texts(plan, "carrier-0")),
        members(a, b, c, had={a: everything}),
        members(b, c),
        members("new-memory", b, c, had={c: everything}),
        with_plan(members("new-memory", b, c, had={c: everything}), plan_text.texts(release, "carrier-0")),
        members("new-memory", b, c, had={c: everything}),
    ]
    answers = [held(answer) for answer in governed([{"members": m, "partitions": topics} for m in steps])]
    whole = [next(m for m, share in given.items() if share) for given in answers[:4]]
    assert whole == [a, a, c, c]
    assert all(given[m] == everything for given, m in zip(answers[:4], whole, strict=True))
    assert [sorted(sum(map(len, s.values())) for s in given.values()) for given in answers[4:]] == [[8, 8, 8]] * 2


FOUR: dict[str, int] = {id_text(b"r" * 16): 4}
[RAW_TOPIC] = [base64.urlsafe_b64decode(topic + "==") for topic in FOUR]


def pair(tag: str, **more: Any) -> dict[str, Json]:
    """Two members of one topic of four partitions, of which they have had nothing yet."""
    return {f"{tag}-{n}": {"topics": list(FOUR), "previous": {}, **more} for n in range(2)}


def all_to(place: int, members: dict[str, Json], number: int = 1, promise: int = 0) -> GovernedPlan:
    """A plan that gives everything to one of the members."""
    keys = tuple(MemberKey(m, fields.get("instance")) for m, fields in members.items())
    return GovernedPlan(number, promise, keys, (), {} if promise & RELEASE else {RAW_TOPIC: [place] * 4})


def carrier(plan: GovernedPlan, member: str = "carrier-0", key: bytes | None = None, **more: Any) -> dict[str, Json]:
    """A member that carries a plan which was written for it."""
    return {member: CARRIER | {"rack": plan_text.texts(plan, member, key)[0]} | more}


def loads(governed: Ask, steps: list[dict[str, Json]], **more: Any) -> list[list[int]]:
    """How many partitions each member has after each step of one group, members by name."""
    groups = [{"members": step, "partitions": FOUR, **more} for step in steps]
    return [[sum(map(len, share.values())) for _, share in sorted(held(a).items())] for a in governed(groups)]


def test_a_carrier_that_left_counts_no_more_and_the_next_needs_neither_its_number_nor_a_clock(governed: Ask) -> None:
    us = pair("left")
    ours = carrier(all_to(0, us, number=5))
    theirs = carrier(all_to(1, us, number=10**17), "carrier-x", instance="apportion-governor-2")
    above = carrier(all_to(0, us, number=10**17 + 1))
    successor = carrier(all_to(1, us, number=1), "carrier-s")
    steps = [us | ours, us | ours | theirs, us | ours, us | above | theirs, us, us | successor, us]
    assert loads(governed, steps) == [[4, 0], [0, 4], [4, 0], [4, 0], [4, 0], [0, 4], [0, 4]]


@pytest.mark.parametrize("static", [False, True])
def test_a_plan_counts_in_the_group_that_carries_it_alone(governed: Ask, static: bool) -> None:
    """A group of somebody else with the same ids and a carrier changes neither what ours follows nor what it hears."""
    us = pair(f"twin-{static}", **({"instance": None} if not static else {}))
    if static:
        us = {m: fields | {"instance": f"pod-{n}"} for n, (m, fields) in enumerate(us.items())}
    theirs = us | carrier(all_to(1, us, number=10**17))
    release = us | carrier(all_to(0, us, number=10**17 + 1, promise=RELEASE))
    steps = [("a", us | carrier(all_to(0, us))), ("b", theirs), ("a", us), ("b", release), ("a", us), ("b", us)]
    steps += [("a", us | carrier(all_to(1, us, number=2), "carrier-n")), ("a", us)]
    groups = [{"members": members, "partitions": FOUR, "group": group} for group, members in steps]
    seen = [[sum(map(len, s.values())) for _, s in sorted(held(a).items())] for a in governed(groups)]
    assert seen == [[4, 0], [0, 4], [4, 0], [2, 2], [4, 0], [2, 2], [0, 4], [0, 4]]


@pytest.fixture
def keyed(tmp_path: Any) -> dict[str, Any]:
    """Properties of a broker that asks for signed plans."""
    (tmp_path / "key").write_bytes(KEY)
    return {"properties": {"apportion.plan.key.file": str(tmp_path / "key")}}


def test_what_was_signed_for_another_group_changes_nothing_here(governed: Ask, keyed: dict[str, Any]) -> None:
    """Its release and its plan, on the very carrier, with instance ids as ours, and with its members' ids among us."""
    us, other = pair("ours", instance="pod"), pair("other", instance="pod")
    us, other = ({m: f | {"instance": f"pod-{n}"} for n, (m, f) in enumerate(g.items())} for g in (us, other))
    ours = carrier(all_to(0, us), key=KEY)
    replays = [
        carrier(all_to(1, other, 10**17, promise), f"carrier-{promise}", KEY) for promise in (0, TOPICS_WHOLE, RELEASE)
    ]
    guests = {m: {"topics": [], "previous": {}} for m in other}
    steps = [us | ours, *(us | ours | replay for replay in replays), *(us | replay for replay in replays)]
    steps += [us | guests | replay for replay in replays] + [us]
    assert {tuple(load[-2:]) for load in loads(governed, steps, **keyed)} == {(4, 0)}


def test_a_kept_copy_of_the_groups_own_signed_plans_is_passed_over(governed: Ask, keyed: dict[str, Any]) -> None:
    us = pair("kept")
    older, old, released = (
        carrier(all_to(1, us, number, promise), member, KEY)
        for number, promise, member in ((1, 0, "carrier-0"), (2, 0, "carrier-0"), (3, RELEASE, "carrier-0"))
    )
    new = carrier(all_to(0, us, number=1), "carrier-n", KEY)
    stolen = {"thief": older["carrier-0"] | {"topics": []}}
    steps = [us | older, us | old, us | released, us | new]
    assert loads(governed, steps, **keyed) == [[0, 4], [0, 4], [2, 2], [4, 0]]
    replays = [us | replay for replay in (older, old, released)]
    assert loads(governed, [*steps, *replays], **keyed)[4:] == [[4, 0]] * 3
    answers = governed([{"members": step, "partitions": FOUR, **keyed} for step in (us | new, us | stolen)])
    assert [len(answer["assignment"]["kept-0"][next(iter(FOUR))]) for answer in answers] == [4, 4]


def test_a_release_lets_go_whom_it_names_and_nobody_else(governed: Ask) -> None:
    us = pair("let-go")
    newcomer = {"let-go-2": us["let-go-0"]}
    ours, release = (
        carrier(all_to(0, us, number, promise), f"carrier-{number}") for number, promise in ((1, 0), (2, RELEASE))
    )
    everybody = carrier(all_to(0, us | newcomer, 3, RELEASE), "carrier-3")
    steps = [us | ours, us | newcomer | release, us | newcomer | everybody, us | newcomer]
    assert [sorted(load) for load in loads(governed, steps)] == [[0, 4], [0, 0, 4], [1, 1, 2], [1, 1, 2]]


def test_only_who_may_govern_does(governed: Ask, tmp_path: Any) -> None:
    """By a key, a plan of another key or of none is passed over; without a key, another instance id is."""
    key_file = tmp_path / "key"
    key_file.write_bytes(KEY + b"\n")
    topic = id_text(b"k" * 16)
    raw = base64.urlsafe_b64decode(topic + "==")

    def asked(tag: str, key: bytes | None, properties: Json, instance: str) -> Json:
        members = {f"{tag}-{n}": {"topics": [topic], "previous": {}} for n in range(2)}
        plan = GovernedPlan(1, 0, tuple(map(MemberKey, members)), (), {raw: [0] * 4})
        carrier = {"carrier-0": CARRIER | {"instance": instance, "rack": plan_text.texts(plan, "carrier-0", key)[0]}}
        return {"members": members | carrier, "partitions": {topic: 4}, "properties": properties}

    signed = {"apportion.plan.key.file": str(key_file)}
    cases = {
        "signed": (KEY, signed, "any", True),
        "unsigned": (None, signed, "apportion-governor", False),
        "forged": (b"another key that is long enough", signed, "apportion-governor", False),
        "named": (None, {"apportion.plan.carriers": "gov-1, gov-2"}, "gov-2", True),
        "more carriers": (None, {"apportion.plan.carriers": "gov-1, gov-2"}, "gov-2-12", True),
        "unnamed": (None, {"apportion.plan.carriers": "gov-1, gov-2"}, "apportion-governor", False),
    }
    questions = [asked(tag, *rest[:3]) for tag, rest in cases.items()]
    for (tag, rest), answer in zip(cases.items(), governed(questions), strict=True):
        loads = sorted(len(share.get(topic, [])) for share in held(answer).values())
        assert loads == ([0, 4] if rest[3] else [2, 2]), tag


def test_a_key_that_cannot_be_read_or_is_short_ends_the_brokers_start_with_a_sentence(
    governed: Ask, tmp_path: Any
) -> None:
    (tmp_path / "short").write_text("abc")
    files = [str(tmp_path / "short"), str(tmp_path / "missing")]
    short, missing = governed([{"members": {}, "properties": {"apportion.plan.key.file": file}} for file in files])
    assert "has 3 bytes, 16 or more are needed" in short["error"]
    assert "cannot be read" in missing["error"]


def test_ten_thousand_hostile_and_torn_plans_throw_nothing_and_give_each_partition_once(governed: Ask) -> None:
    r = random.Random(42)
    asked = []
    for n in range(10_000):
        members, topics = some_group(r, f"h{n}") if n % 10 == 0 else asked[-1]
        asked.append((members, topics))
    racks = [mistreated(r, some_plan(r, *group)) for group in asked]
    groups = [{"members": with_plan(m, [rack]), "partitions": t} for (m, t), rack in zip(asked, racks, strict=True)]
    for (members, topics), answer in zip(asked, governed(groups), strict=True):
        sound(members, topics, held(answer))


def mistreated(r: random.Random, plan: GovernedPlan) -> str:
    """A plan's text with something wrong: cut, turned, swollen, or other bytes under a right head."""
    text = plan_text.texts(plan, "carrier-0")[0]
    head, body = text.rsplit(":", 1)
    kind = r.randrange(6)
    if kind == 0:
        return text[: r.randrange(len(plan_text.MARK), len(text))]
    if kind == 1:
        at = r.randrange(len(head), len(text))
        return text[:at] + r.choice("AZaz09-_:=+/ü\0") + text[at + 1 :]
    raw = bytearray(zlib.decompress(base64.urlsafe_b64decode(body + "==")))
    if kind == 2:
        raw[r.randrange(len(raw))] = r.randrange(256)
    elif kind == 3:
        raw = raw[: r.randrange(len(raw) + 1)] + bytearray(r.randbytes(r.randrange(9)))
    elif kind == 4:
        raw = bytearray(r.randbytes(r.randrange(60)))
    else:
        at = r.randrange(len(raw))
        raw[at : at + 1] = b"\xff\xff\xff\xff\x07"
    return f"{head}:{plan_text.base64url(zlib.compress(bytes(raw)))}"


def test_a_bomb_is_refused_before_it_is_large(governed: Ask) -> None:
    """64 MB of zeros deflate to 64 kB, half of which a rack id could hold."""
    bomb = plan_text.base64url(zlib.compress(bytes(16 << 20), 9))
    topic = id_text(b"b" * 16)
    members = {f"bomb-{n}": {"topics": [topic], "previous": {}} for n in range(2)}
    [answer] = governed([{"members": with_plan(members, [f"apportion-plan:2:5:{bomb}"]), "partitions": {topic: 4}}])
    assert sorted(len(share[topic]) for share in held(answer).values()) == [2, 2]


def test_a_thousand_members_and_ten_thousand_partitions_fit_one_rack_id_and_more_take_several(governed: Ask) -> None:
    r = random.Random(43)
    topics = {id_text(r.randbytes(16)): 1000 for _ in range(10)}
    members = {id_text(r.randbytes(16)): {"topics": list(topics), "previous": {}} for _ in range(1000)}
    keys = tuple(map(MemberKey, members))
    dealt = [n % 1000 for n in range(10_000)]
    r.shuffle(dealt)
    owners = {base64.urlsafe_b64decode(t + "=="): dealt[n * 1000 : n * 1000 + 1000] for n, t in enumerate(topics)}
    plan = GovernedPlan(1, 0, keys, tuple(range(1000)), owners)
    racks = plan_text.texts(plan, "carrier-0", KEY)
    assert len(racks) == 1
    many = {base64.urlsafe_b64decode(id_text(r.randbytes(16)) + "=="): r.sample(range(1000), 1000) for _ in range(40)}
    several = plan_text.texts(GovernedPlan(1, 0, keys, (), owners | many), "carrier-0")
    assert 2 < len(several) < 9
    assert max(map(len, several)) <= plan_text.RACK_MAX_BYTES
    [answer] = governed([{"members": with_plan(members, several), "partitions": topics}])
    assert held(answer) == apply(GovernedPlan(1, 0, keys, (), owners), members, topics)


def test_a_group_that_no_rack_id_can_hold_is_a_sentence() -> None:
    keys = tuple(MemberKey(str(n)) for n in range(9000))
    with pytest.raises(ApportionError, match=r"a plan for 9000 members .* which may have 32767"):
        plan_text.texts(GovernedPlan(1, 0, keys, (), {bytes(16): [0]}), "")


def test_what_is_written_is_read_back_and_a_torn_text_is_refused() -> None:
    r = random.Random(44)
    members, topics = some_group(r, "w")
    plan = some_plan(r, members, topics)
    salt = plan_text.salt_of(plan.members)
    [text] = plan_text.texts(plan, "carrier-0", KEY)
    part = plan_text.read(text)
    assert part.digests == tuple(member.digest(salt) for member in plan.members)
    assert (part.number, part.promise, part.rank) == (plan.number, plan.promise, plan.rank)
    assert part.owners == {topic: tuple(owners) for topic, owners in plan.owners.items()}
