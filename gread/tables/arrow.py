"""Conversion of a Parquet file to an Arrow stream in a separate process: ``python arrow.py FILE``.

Some broken files make pyarrow end its process, with a C++ exception that Python cannot catch. This
file imports nothing of gread, which would take seconds.
"""

import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet

PLAIN = ("NONE", "INT", "STRING")  # logical types that need no Python object for each value
READ = "read\n"  # the order to go on
FULL = 3  # the exit status if memory is full


def main(path: str) -> None:
    """Print sizes as one line of JSON, and the data on request."""
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
    """Whether an Arrow type is text."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return any(is_kind(of) for is_kind in kinds)


def _unpacked(file: Any) -> float:
    """Bytes in memory by the metadata: numbers become arrays, lists and dates Python objects."""
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
    except Exception as error:  # a parser of others fails in its own ways
        sys.exit(str(error).partition("\n")[0] or type(error).__name__)
