"""What is told of the tables: made from the columns, and what its own tools take."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
import yaml

from apportion.tables import schemas
from tools import tables as documents

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", documents.documents())
def test_the_files_are_what_the_columns_say(name: str) -> None:
    """Made by ``python -m tools.tables docs``."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == documents.documents()[name]()


@pytest.mark.parametrize("name", ["odcs.yaml", "sources.yml"])
def test_a_reader_of_yaml_finds_what_was_written(name: str) -> None:
    written = documents.contract() if name == "odcs.yaml" else documents.sources()
    assert yaml.safe_load((ROOT / "docs" / "tables" / name).read_text(encoding="utf-8")) == written


def test_the_contract_is_one_by_its_own_standard() -> None:
    """Its JSON schema comes with the standard's own package; where that is missing the shape is not judged."""
    standard = pytest.importorskip(
        "open_data_contract_standard.model", reason="pip install open-data-contract-standard"
    )
    text = (ROOT / "docs" / "tables" / "odcs.yaml").read_text(encoding="utf-8")
    contract = standard.OpenDataContractStandard.from_string(text)
    assert [table.physicalName for table in contract.schema_] == list(schemas.TABLES)


def test_dbt_sources_lead_to_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As dbt-duckdb reads them: the place with the folder put in, the columns of the types that it names."""
    kinds = {"string": "VARCHAR", "int": "INTEGER", "bigint": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN"}
    kinds |= {"timestamp": "TIMESTAMP WITH TIME ZONE", "binary": "BLOB"}
    (source,) = documents.sources()["sources"]
    for table in source["tables"]:
        place = table["config"]["meta"]["external_location"]
        name = table["name"].replace("_", "/", 1)
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(schemas.arrow_schema(schemas.TABLES[name]).empty_table(), tmp_path / name / "empty.parquet")
        file = place.replace("{{ env_var('APPORTION_TABLES', 'tables') }}", str(tmp_path))
        relation = duckdb.read_parquet(file)
        found = dict(zip(relation.columns, map(str, relation.types), strict=True))
        for column in table["columns"]:
            if column["data_type"] in kinds:
                assert found[column["name"]] == kinds[column["data_type"]], f"{name}.{column['name']}"
            else:
                assert column["data_type"].startswith(("array<", "struct<"))
                assert found[column["name"]].startswith("STRUCT") or found[column["name"]].endswith("[]")


def test_arrow_and_spark_have_the_same_types() -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.pandas.types import to_arrow_schema

    from apportion.spark import schemas as of_spark

    for name, table in schemas.TABLES.items():
        schema = of_spark.schema_of(table)
        assert schemas.arrow_schema(table).equals(to_arrow_schema(schema, timezone="UTC")), name
        assert documents.sql_type(table.columns).replace(": ", ":").replace(", ", ",") == schema.simpleString()
