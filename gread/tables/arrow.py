"""Conversion of a Parquet file to an Arrow stream in a separate process: ``python arrow.py FILE``.

Some corrupt files crash pyarrow with a C++ exception that Python cannot catch. This module does not
import gread, which would take seconds.
"""

import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet

PLAIN = ("NONE", "INT", "STRING")  # logical types that need no Python object for each value
READ = "read\n"  # the request for the data
FULL = 3  # the exit status if out of memory


def main(path: str) -> None:
    """Write the sizes as one line of JSON and, on request, the data as an Arrow stream."""
    with pyarrow.parquet.ParquetFile(path) as file:
        sizes = (file.metadata.num_rows, file.metadata.num_columns, _unpacked(file))
        texts = [of.name for of in file.schema_arrow if is_text(of.type)]
    print(json.dumps(sizes), flush=True)
    if sys.stdin.readline() != READ:
        return
    with (
        pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file,
        pa.ipc.new_stream(sys.stdout.buffer, file.schema_arrow) as stream,
    ):
        for batch in file.iter_batches():
            stream.write_batch(batch)


def is_text(of: Any) -> bool:
    """Whether an Arrow type is text or binary."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return any(is_kind(of) for is_kind in kinds)


def _unpacked(file: Any) -> float:
    """Estimate bytes in memory from the metadata: numbers as arrays, lists and dates as objects."""
    size = 0.0
    for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
        for place in range(group.num_columns):
            column, of = group.column(place), file.schema.column(place)
            plain = of.max_repetition_level == 0 and of.logical_type.type in PLAIN
            size += (9 if plain else 64) * column.num_values + column.total_uncompressed_size
    return size


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except MemoryError:
        sys.exit(FULL)
    except Exception as error:  # a third-party parser may raise any exception
        sys.exit(str(error).partition("\n")[0] or type(error).__name__)
