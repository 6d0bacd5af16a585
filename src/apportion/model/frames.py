"""A result as a table: Arrow's stream, which pandas, polars and DuckDB read by themselves, and a pandas DataFrame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from apportion.errors import MissingExtra


class Tabular(ABC):
    """Something with rows and named columns."""

    @abstractmethod
    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Column to its values, as many in each; None if one is not known."""

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` of the columns.

        Raises
            MissingExtra: pandas or pyarrow is not installed.
        """
        try:
            return self._arrow().to_pandas()
        except ModuleNotFoundError as missing:
            raise MissingExtra("A frame", "frames") from missing

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's stream of the columns: ``polars.DataFrame(plan)``, ``duckdb.sql("FROM plan")``, ``pa.table(plan)``.

        Source: the Arrow PyCapsule interface.
        """
        return self._arrow().__arrow_c_stream__(requested_schema)

    def _arrow(self) -> Any:
        try:
            import pyarrow as pa
        except ModuleNotFoundError as missing:
            raise MissingExtra("A table of Arrow's", "frames") from missing
        return pa.table({name: pa.array(values) for name, values in self.columns().items()})
