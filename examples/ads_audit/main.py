"""Recompute the ads join as one PySpark batch job, and hold the live join's output against it.

    python -m examples.ads_audit.main

It lets ``examples.ads_join`` run under fire, audits its output, then drops one row on purpose and audits again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from apportion.spark.packages import KAFKA, local_jars
from apportion.spark.session import session
from apportion.testing.broker import Broker
from examples.ads_join.main import join_under_fire
from examples.ads_join.traffic import PARTITIONS, WINDOW_MS
from examples.running import fill, read_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AUCTIONS = 2000
ROW = "click string, auction string, impression_at bigint, click_at bigint"


def main() -> None:
    """Chaos, audit, sabotage, audit."""
    with Broker() as broker:
        join_under_fire(broker, AUCTIONS)
        dropped = copy_without_one(broker)
        with session(jars=list(filter(local_jars, [KAFKA]))) as spark:
            sides = [table(spark, broker.bootstrap, topic) for topic in ("impressions", "clicks")]
            due = sides[0].transform(joined_with, sides[1]).cache()
            for topic in ("joined", "joined-less-one"):
                found = table(spark, broker.bootstrap, topic)
                lines = sorted(map(tuple, due.transform(audit, found).collect()))
                count = {what: sum(line[0] == what for line in lines) for what in ("missing", "duplicate", "wrong")}
                print(f"{topic}: {due.count()} rows due; " + ", ".join(f"{n} {what}" for what, n in count.items()))
                for what, click in lines[:5]:
                    print(f"  {what}: {click}")
    print(f"dropped on purpose: {dropped}")


def joined_with(impressions: DataFrame, clicks: DataFrame) -> DataFrame:
    """The rows that are due: (click, auction, impression_at, click_at)."""
    from pyspark.sql import functions as f

    shown = impressions.select("auction", f.col("at").alias("impression_at"))
    clicked = clicks.select("click", "auction", f.col("at").alias("click_at"))
    return (
        clicked.join(shown, "auction")
        .where(f.col("click_at").between(f.col("impression_at"), f.col("impression_at") + WINDOW_MS))
        .select("click", "auction", "impression_at", "click_at")
    )


def audit(due: DataFrame, found: DataFrame) -> DataFrame:
    """One row for each fault: (what, click); what is missing, duplicate or wrong (no such row is due)."""
    from pyspark.sql import functions as f

    found = found.select(due.columns)
    missing = due.join(found, "click", "left_anti").select(f.lit("missing").alias("what"), "click")
    twice = found.groupBy("click").count().where("count > 1").select(f.lit("duplicate").alias("what"), "click")
    wrong = found.distinct().join(due, due.columns, "left_anti").select(f.lit("wrong").alias("what"), "click")
    return missing.unionAll(twice).unionAll(wrong)


def table(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """The values of a topic as columns: (auction, at), (click, auction, at), or those of a joined row."""
    from pyspark.sql import functions as f

    schema = {"impressions": "auction string, at bigint", "clicks": "click string, auction string, at bigint"}
    if local_jars(KAFKA):
        source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        values = source.option("subscribe", topic).load().select(f.col("value").cast("string").alias("value"))
    else:
        rows = [(record.value.decode(),) for record in read_all(bootstrap, topic)]
        values = spark.createDataFrame(rows, "value string")
    return values.select(f.from_json("value", schema.get(topic, ROW)).alias("row")).select("row.*")


def copy_without_one(broker: Broker) -> str:
    """The output once more, with its middle row left out; which click that was."""
    records = read_all(broker.bootstrap, "joined")
    gone = records.pop(len(records) // 2)
    broker.create_topic("joined-less-one", PARTITIONS, retention_ms="-1")
    fill(broker.bootstrap, "joined-less-one", ((r.partition, r.key, r.value, r.timestamp) for r in records))
    return str(json.loads(gone.value)["click"])


if __name__ == "__main__":
    main()
