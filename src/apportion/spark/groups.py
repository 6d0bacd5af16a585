"""Each group folded once: what it is at the end, and the rebalances that it went through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from apportion.history import rows
from apportion.history.cause import CommitCadence, CommitInterval
from apportion.history.fold import Folded, fold
from apportion.history.rebalances import Rebalance, rebalances
from apportion.history.records import CLASSIC, CONSUMER
from apportion.history.scenarios import sentence
from apportion.history.stored import member_row
from apportion.spark import epochs, schemas
from apportion.spark.batches import map_groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]
PRESENT: Final = ("group", "type", "state", "protocol", "generation", "readable", "members")
_CHANGE: Final = tuple(field.name for field in fields(Rebalance))
_REBALANCE: Final = StructType(
    [field for field in schemas.REBALANCES.schema.fields if field.name not in ("group", "at")]
    + [StructField("at_ms", LongType())]
)
FOLDED: Final = StructType(
    [schemas.GROUP_STATE.schema[name] for name in PRESENT] + [StructField("rebalances", ArrayType(_REBALANCE))]
)
"""A row of ``folded``: the group's state, nulls for one that has no record of its own or is gone; its rebalances."""


def folded(histories: DataFrame) -> DataFrame:
    """One row a group from ``histories``: (group, type, state, protocol, generation, readable, members, rebalances)."""
    return map_groups(histories, _folded, FOLDED)


def _folded(row: Row) -> Iterator[Row]:
    try:
        yield _fold_one(row)
    except Exception as error:  # other people's bytes must never stop the job: the group says what was wrong
        empty = dict.fromkeys(FOLDED.names)
        kind = CLASSIC if row["generations"] else CONSUMER
        yield {
            **empty, "group": row["group"], "type": kind, "state": f"Unreadable: {sentence(error)}", "readable": False,
            "members": [], "rebalances": [],
        }  # fmt: skip


def _fold_one(row: Row) -> Row:
    folded = folded_of(row)
    habits = CommitCadence(
        CommitInterval(h["after"], h["topic"], h["partition"], h["n"], h["first"], h["last"]) for h in row["habits"]
    )
    changes = [_change(change) for change in rebalances(folded.generations, habits)]
    present = folded.present
    return {
        "group": row["group"],
        "type": present.type if present else None,
        "state": present.state if present else None,
        "protocol": present.protocol if present else None,
        "generation": present.generation if present else None,
        "readable": present.readable if present else None,
        "members": list(map(member_row, present.members)) if present else [],
        "rebalances": changes,
    }


def _change(change: Rebalance) -> dict[str, Any]:
    row = {name: getattr(change, name) for name in _CHANGE}
    row["at_ms"] = row.pop("at")
    return row


def folded_rows(row: Row) -> dict[str, list[Row]]:
    """What a row of ``histories`` comes to, as rows: ``present`` and ``rebalances`` of ``FOLDED``, ``epochs``."""
    answer: dict[str, list[Row]] = {"present": list(_folded(row))}
    changes = [change for one in answer["present"] for change in one["rebalances"]]
    return {
        **answer,
        "rebalances": [{**change, "group": row["group"], "at": change["at_ms"] * 1000} for change in changes],
        "epochs": [{**one, "at": one["at_ms"] * 1000} for one in (epochs.of_group(row) if row["epochs"] else ())],
    }


def folded_of(row: Row) -> Folded:
    """A row of ``histories`` as generations and present."""
    return fold(rows.events(row["group"], row["generations"], row["epochs"]), row["names"] or {})


def present(folded: DataFrame, newest: DataFrame) -> DataFrame:
    """Groups that are not gone, those that only commit as ``simple``: the columns of ``folded`` but ``rebalances``."""
    simple = newest.select("group").distinct().withColumn("commits", F.lit(True))
    both = folded.drop("rebalances").join(simple, "group", "left")
    kind = F.coalesce("type", F.when(F.col("commits"), "simple"))
    return both.withColumn("now", kind).where("now is not null").select(
        "group",
        F.col("now").alias("type"),
        F.coalesce("state", F.lit("Empty")).alias("state"),
        "protocol",
        "generation",
        F.coalesce("readable", F.lit(True)).alias("readable"),
        F.coalesce("members", F.array()).alias("members"),
    )  # fmt: skip


def groups(present: DataFrame) -> DataFrame:
    """``gold/groups``: (group, type, state, protocol, generation, members)."""
    names = schemas.GROUP_MEMBER.names
    members = F.transform("members", lambda m: F.struct(*[m[name].alias(name) for name in names]))
    return present.select("group", "type", "state", "protocol", "generation", members.alias("members"))


def rebalances_of(folded: DataFrame) -> DataFrame:
    """``gold/rebalances``: a row for each generation that follows another with no tombstone between."""
    each_one = folded.select("group", F.explode("rebalances").alias("r")).select("group", "r.*")
    return each_one.withColumn("at", F.timestamp_millis("at_ms")).drop("at_ms")


def wanted(present: DataFrame) -> DataFrame:
    """What living members subscribe to: (group, wants array<string>); no row where there are none, or nobody knows."""
    wants = F.array_distinct(F.flatten("members.topics")).alias("wants")
    return present.where("readable and size(members) > 0").select("group", wants)


def ever_wanted(generations: DataFrame, names: DataFrame) -> DataFrame:
    """(group, topic): topics that some member of a generation ever wanted, or that a group's epochs name.

    names
        As ``histories.names_of`` gives them.
    """
    topics = F.flatten(F.transform("members", lambda member: member["topics"]))
    # flatten of empty arrays explodes to nothing.
    wanted = generations.select("group", F.explode(topics).alias("topic"))
    return wanted.unionByName(names.select("group", "name.topic")).distinct()


def group_state(present: DataFrame, newest: DataFrame, ever: DataFrame, topics: DataFrame) -> DataFrame:
    """``gold/group_state``: the group's present with the topics that it wants, ever wanted, or has commits on.

    ever
        As ``ever_wanted`` gives it.
    topics
        As ``lag.topic_rows`` gives them.
    """
    wants = F.flatten("members.topics")
    named = (
        present.select("group", F.explode(wants).alias("topic"))
        .unionByName(newest.select("group", "topic"))
        .unionByName(ever)
    ).distinct()
    topic = F.struct(*[F.col(name) for name in schemas.TOPIC.names]).alias("topic")
    pieces = named.join(topics, "topic", "inner").select("group", topic)
    committed = newest.select("group", F.struct("topic", "partition", "committed").alias("commit"))
    both = pieces.unionByName(committed, allowMissingColumns=True).groupBy("group")
    known = both.agg(
        F.sort_array(F.collect_list("topic")).alias("topics"), F.sort_array(F.collect_list("commit")).alias("commits")
    )
    whole = present.join(known, "group", "left")
    return whole.select(*PRESENT, *[F.coalesce(F.col(name), F.array()).alias(name) for name in ("topics", "commits")])
