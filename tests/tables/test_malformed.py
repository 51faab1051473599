"""Reading any file gives a graph or a one-line error."""

import json
import string

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gread.base.errors import InputError
from gread.tables.graph import read_graph
from tests.tables.conftest import WRITERS

FAST = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
CELLS = st.one_of(
    st.sampled_from(["", "a", "b", "1", "2", "-1", "nan", "inf", "NA", "1e999", "007", "x,y", '"']),
    st.text(max_size=4),
    st.integers().map(str),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=1)
    ),
    max_leaves=3,
)


def check(nodes, edges, **options):
    """Check that reading gives a valid graph or a short error."""
    try:
        graph = read_graph(nodes, edges, **options)
    except InputError as error:
        assert str(error)
        assert len(str(error)) < 1000
        return
    assert len(set(graph.ids)) == graph.num_nodes > 0
    if graph.edge_index.numel():
        assert graph.edge_index.min() >= 0
        assert graph.edge_index.max() < graph.num_nodes
    assert all(len(column) == graph.num_nodes for column in graph.columns.values())


@pytest.mark.slow
@FAST
@given(data=st.data(), weight=st.sampled_from([None, "w"]), ending=st.sampled_from(["csv", "tsv"]))
def test_tables_of_any_cells(tmp_path, data, weight, ending):
    delimiter = {"csv": ",", "tsv": "\t"}[ending]

    def write(name, header):
        columns = data.draw(st.permutations(header))[: data.draw(st.integers(1, len(header)))]
        rows = data.draw(
            st.lists(st.lists(CELLS, min_size=len(columns) - 1, max_size=len(columns)), max_size=6)
        )
        path = tmp_path / f"{name}.{ending}"
        text = "\n".join(delimiter.join(row) for row in [list(columns), *rows])
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        return path

    check(write("n", ["id", "x"]), write("e", ["source", "target", "w"]), weight=weight)


@FAST
@given(
    content=st.one_of(
        st.binary(max_size=60),
        st.text(alphabet=string.printable, max_size=60).map(str.encode),
        st.text(alphabet='id,;"\n\t 01ab[]{}<>:', max_size=60).map(str.encode),
    ),
    ending=st.sampled_from(["csv", "tsv", "jsonl", "npz", "parquet", "gml", "graphml"]),
)
def test_files_of_any_bytes(tmp_path, content, ending):
    path = tmp_path / f"t.{ending}"
    path.write_bytes(content)
    check(path, None if ending.startswith("g") else path)


@pytest.mark.slow
@FAST
@given(rows=st.lists(st.dictionaries(st.sampled_from(["id", "x", "to"]), VALUES), max_size=5))
def test_json_of_any_values(tmp_path, rows):
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    check(path, path, source="id", target="to")


@FAST
@given(
    nodes=st.lists(
        st.dictionaries(st.sampled_from(["id", "label", "x"]), st.text('ab0 ["]', max_size=3)),
        max_size=4,
    )
)
def test_gml_of_any_nodes(tmp_path, nodes):
    path = tmp_path / "t.gml"
    text = [f"node [ {' '.join(f'{k} {v}' for k, v in node.items())} ]" for node in nodes]
    path.write_text(f"graph [ {' '.join(text)} ]")
    check(path, None)


@pytest.mark.parametrize("where", range(0, 1100, 220))
def test_parquet_with_a_broken_byte(tmp_path, where):
    write_parquet = WRITERS["parquet"]
    path = tmp_path / "t.parquet"
    write_parquet(path, {"id": [1, 2, 3], "source": [1, 2, 3], "target": [2, 3, 1]})
    content = bytearray(path.read_bytes())
    content[min(where, len(content) - 1)] ^= 0xFF
    path.write_bytes(bytes(content))
    check(path, path)
