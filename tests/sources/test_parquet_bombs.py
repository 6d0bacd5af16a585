"""A few bytes of Parquet may stand for gigabytes: a file is refused before its values are written out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apportion.errors import BadInput
from apportion.sources import parquet

ONE_VALUE = """
import re, sys
from pathlib import Path
from apportion.errors import BadInput
from apportion.sources import parquet
try:
    parquet.read(Path(sys.argv[1]), {"value": parquet.BINARY})
except BadInput as refused:
    print(refused)
# Not of resource.getrusage, which counts the process that this one was forked from, too.
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10)
"""


def test_one_value_that_many_rows_name_is_counted_before_it_is_written_out(tmp_path: Path) -> None:
    file = tmp_path / "bomb.parquet"
    value = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array([bytes(1_000_000)]))
    pq.write_table(pa.table({"value": value}), file, compression="zstd", store_schema=False)
    assert file.stat().st_size < 60_000
    words = [sys.executable, "-c", ONE_VALUE, str(file)]
    sentence, mebibytes = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert sentence == f"{file}: found 20,000,000,000 bytes when unpacked; needed at most 4,294,967,296 in one file."
    assert int(mebibytes) < 1_000


def test_zeros_that_were_compressed_are_counted_by_the_footer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "zeros.parquet"
    values = pa.array([bytes(1_000_000)] * 20)
    pq.write_table(pa.table({"value": values}), file, compression="zstd", use_dictionary=False)
    assert parquet.read(file, {"value": parquet.BINARY}).nbytes > 20_000_000
    monkeypatch.setattr(parquet, "MOST_UNPACKED", 10_000_000)
    with pytest.raises(BadInput, match="bytes when unpacked; needed at most 10,000,000"):
        parquet.read(file, {"value": parquet.BINARY})
