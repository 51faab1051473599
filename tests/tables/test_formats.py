import sys

import numpy as np
import pytest
from scipy.sparse import csr_array, save_npz
from sklearn.datasets import dump_svmlight_file

from gread.base.errors import InputError
from gread.tables import formats
from gread.tables.formats import read_table
from tests.tables.conftest import NODES, TABLES, WRITERS


@pytest.mark.parametrize("ending", TABLES)
def test_every_format_gives_the_same_table(ending, tmp_path):
    path = tmp_path / f"nodes.{ending}"
    WRITERS[ending](path, NODES)
    table = read_table(path)
    assert len(table) == 4
    assert table["id"].values.tolist() == ["a", "b", "c", "d"]
    assert table["score"].values.tolist() == NODES["score"]
    assert table["member"].kind == "truth"
    if ending != "npz":
        assert table["age"].kind == "whole"
        assert table["age"].missing.tolist() == [False, True, False, False]
        assert table["colour"].kind == "text"
        assert table["colour"].missing.tolist() == [False, False, True, False]


def test_column_kind_is_consistent_across_row_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "ROWS", 2)
    path = tmp_path / "t.csv"
    rows = ["1,1,,", "2,2,,NA", "3.5,x,,NA", "4,5,a,NA", "5,6,,7"]
    path.write_text("\n".join(["a,b,c,d", *rows]))
    table = read_table(path)
    assert {name: found.kind for name, found in table.columns.items()} == {
        "a": "number",
        "b": "text",
        "c": "text",
        "d": "whole",
    }
    assert table["b"].values.tolist() == ["1", "2", "x", "5", "6"]
    assert table["c"].missing.tolist() == [True, True, True, False, True]
    assert table["d"].values[4] == 7


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_file_may_have_other_delimiters(tmp_path, delimiter):
    path = tmp_path / "t.csv"
    path.write_text(delimiter.join(["id", "name"]) + "\n" + delimiter.join(["1", '"a b"']) + "\n")
    assert read_table(path)["name"].values.tolist() == ["a b"]


def test_byte_order_mark_blank_lines_and_unnamed_index_are_ignored(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeff,id\r\n\r\n0,é\r\n1,b\r\n\r\n".encode())
    table = read_table(path)
    assert list(table.columns) == ["id"]
    assert table["id"].values.tolist() == ["é", "b"]


def test_arrays_and_lists_are_columns_of_vectors(tmp_path):
    np.savez(tmp_path / "t.npz", id=np.arange(3), x=np.eye(3))
    assert read_table(tmp_path / "t.npz")["x"].values.shape == (3, 3)
    (tmp_path / "t.jsonl").write_text('{"x": [1, 2]}\n{"x": null}\n')
    found = read_table(tmp_path / "t.jsonl")["x"]
    assert found.kind == "vector"
    assert found.missing.tolist() == [False, True]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.csv", b"", "t.csv is empty"),
        ("t.csv", b"\n\n", "its first line must name the columns"),
        ("t.csv", b"a,a\n1,2\n", "its columns must have different names, got 'a' twice"),
        (
            "t.csv",
            b"a,b\n1\n",
            "its rows must have 2 fields, as many as the header, got 1 in row 1",
        ),
        ("t.csv", b'a,b\n1,"2\n', "it is not a table of text"),
        ("t.csv", "id\nköln\n".encode("latin-1"), "must be UTF-8 text, got the byte 0xf6"),
        ("t.csv", "id\na\n".encode("utf-16"), "must be UTF-8 text"),
        ("t.xlsx", b"PK", "unknown format of a table 'xlsx'"),
        ("t.jsonl", b"{}\n[1]\n", "line 2 must be an object, got list"),
        ("t.jsonl", b'{"a": 1\n', "line 1 is not valid JSON"),
        ("t.jsonl", b'{"a":' + 10**5 * b"[", "line 1 is not valid JSON"),
        ("t.jsonl", b'{"a": "\\ud800"}', "line 1 is not valid JSON"),
        ("t.jsonl", b'{"a": {"b": 1}}', "column 'a': a column must hold plain values"),
        ("t.npz", b"no zip", "it is not an NPZ file"),
        ("t.parquet", b"no parquet", "it is not a Parquet file"),
    ],
)
def test_unreadable_file_raises_a_one_line_error(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence) as raised:
        read_table(tmp_path / name)
    assert "\n" not in str(raised.value)


def test_an_npz_file_with_objects_is_not_unpickled(tmp_path):
    np.savez(tmp_path / "t.npz", a=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="not an NPZ file of plain arrays"):
        read_table(tmp_path / "t.npz")


def test_columns_of_different_lengths_raise_input_error(tmp_path):
    np.savez(tmp_path / "t.npz", a=np.arange(3), b=np.arange(4))
    with pytest.raises(InputError, match="must have one length, got a 3, b 4"):
        read_table(tmp_path / "t.npz")


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "npz", "parquet"])
@pytest.mark.parametrize("begin", [b"id,a\n1,2\n", b""])
def test_a_file_larger_than_the_memory_is_not_read(tmp_path, ending, begin):
    path = tmp_path / f"t.{ending}"
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(2**42)  # a sparse file
    with pytest.raises(InputError, match=r"must fit into memory, got 4398\.0 GB"):
        read_table(path)


def test_missing_file_and_directory_raise_input_error(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        read_table(tmp_path / "t.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(InputError, match="must be a file, got a folder"):
        read_table(tmp_path / "d.csv")


def test_missing_pyarrow_error_names_the_package_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"pip install 'gread\[parquet\]'"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    "text",
    [
        'id;a,b,c;size\n1;"x;y";1\n2;z;3\n',
        "id|a|size\n1|x,y|1\n2|z|3\n",
        "id;a;size\n1;1,5;1\n2;2,5;3\n",
        'id,a,size\n1,"x;y;z",1\n2,"p;q;r",3\n',
        'id;a;size\n1;"x\n y";1\n2;z;3\n',
    ],
)
def test_delimiter_is_inferred_from_all_rows(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    table = read_table(tmp_path / "t.csv")
    assert list(table.columns)[::2] == ["id", "size"]
    assert table["size"].values.tolist() == [1, 3]


def test_nan_is_missing_in_an_array_of_numbers(tmp_path):
    np.savez(tmp_path / "t.npz", id=np.arange(3), x=np.array([1.0, np.nan, 3.0]))
    assert read_table(tmp_path / "t.npz")["x"].missing.tolist() == [False, True, False]


def test_parquet_preserves_numeric_categoricals(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"id": [1, 2, 3], "code": pandas.Categorical([7, 8, 7])})
    frame.to_parquet(tmp_path / "t.parquet")
    found = read_table(tmp_path / "t.parquet")["code"]
    assert found.categorical
    assert found.values.tolist() == [7, 8, 7]


def wide(rows=60, columns=150):
    """Mostly zero counts, and the cells of a table with them and columns of all other kinds."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.1, (rows, columns))
    counts[0] = 0
    cells = {f"w{k}": counts[:, k].astype(str).tolist() for k in range(columns)}
    cells["late"] = ["0"] * 40 + [str(k) for k in range(1, 21)]  # values only in later rows
    cells["word"] = ["0"] * 59 + ["x"]
    cells["code"] = ["0"] * 59 + ["007"]
    cells["gap"] = ["0"] * 57 + ["", "NA", "2.5"]
    return counts, {"id": [str(k) for k in range(rows)]} | cells


def test_wide_table_of_zeros_is_read_as_sparse_columns(tmp_path, monkeypatch):
    counts, cells = wide()
    WRITERS["csv"](tmp_path / "t.csv", cells)
    monkeypatch.setattr(formats, "CELLS", 1 << 12)  # several blocks
    table = read_table(tmp_path / "t.csv")
    assert list(table.columns) == list(cells)
    assert all(table.stored(f"w{k}").sparse for k in range(150) if (counts[:, k] > 0).sum() <= 15)
    monkeypatch.setattr(formats, "WIDE", 10**6)
    for name, dense in read_table(tmp_path / "t.csv").columns.items():
        found = table[name]
        assert not dense.sparse
        assert (found.kind, found.missing.tolist()) == (dense.kind, dense.missing.tolist())
        there = ~dense.missing
        assert found.values[there].tolist() == dense.values[there].tolist()
    assert table["gap"].missing.sum() == 2


def test_sparse_matrices_are_read_from_scipy_npz_and_libsvm(tmp_path):
    matrix = csr_array(wide()[0].astype(np.float32))
    labels = np.arange(60) % 3
    save_npz(tmp_path / "x.npz", matrix)
    save_npz(tmp_path / "c.npz", matrix.tocsc())
    parts = {f"x_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
    np.savez(tmp_path / "p.npz", label=labels, x_shape=np.array(matrix.shape), **parts)
    dump_svmlight_file(matrix, labels, str(tmp_path / "x.svm"))
    for name in ("x.npz", "c.npz", "p.npz", "x.svm"):
        table = read_table(tmp_path / name)
        found = table["x"]
        assert (found.kind, found.sparse, len(found)) == ("vector", True, 60)
        np.testing.assert_array_equal(found.values.toarray(), matrix.toarray())
        if "label" in table.columns:
            assert table["label"].values.tolist() == labels.tolist()


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"indices": [9, 1]}, "it is not an NPZ file of plain arrays"),
        ({"indptr": [0, 1, 5]}, "it is not an NPZ file of plain arrays"),
        ({"shape": [2, 10**12]}, "its matrix must have 10,000,000 columns or fewer"),
        ({"shape": [10**12, 3]}, "it is not an NPZ file of plain arrays|must contain enough"),
        ({"data": ["a", "b"]}, "not an NPZ file of plain arrays|must be .* of numbers"),
    ],
)
def test_corrupt_sparse_matrix_raises_input_error(tmp_path, parts, sentence):
    whole = {"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 3]}
    given = {f"x_{name}": np.array(values) for name, values in (whole | parts).items()}
    np.savez(tmp_path / "t.npz", **given)
    with pytest.raises(InputError, match=sentence):
        read_table(tmp_path / "t.npz")


@pytest.mark.parametrize("text", ["1 a:b\n", "x 1:2\n", "1,2 3:4\n", "1 2:1 1:1\n"])
def test_invalid_libsvm_file_raises_input_error(tmp_path, text):
    (tmp_path / "t.svm").write_text(text)
    with pytest.raises(InputError, match="it is not a libsvm file"):
        read_table(tmp_path / "t.svm")


def test_nan_in_an_npz_array_is_missing_and_infinity_is_not(tmp_path):
    np.savez(tmp_path / "t.npz", id=np.arange(3), x=np.array([1.0, np.nan, np.inf]))
    found = read_table(tmp_path / "t.npz")["x"]
    assert found.missing.tolist() == [False, True, False]
    assert found.values.tolist() == [1.0, 0.0, np.inf]
