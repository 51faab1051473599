"""Every benchmark is read from files of its format, with a generated graph in them."""

import json
import shutil
import sys

import pytest
import torch
from torch_geometric.utils import remove_self_loops, to_undirected

import gread
from gread.cli import main
from gread.data.files import DataError
from tests.data.stand_ins import GRAPH, MASKS, NODES, write_stand_ins

NAMES = [name for name, entry in gread.DATASETS.items() if entry.files]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    return root, write_stand_ins(root)


@pytest.fixture
def root(written, monkeypatch):
    monkeypatch.setattr("gread.data.files.manifest", lambda: written[1])
    return written[0]


@pytest.mark.parametrize("name", [*NAMES, "syn-cora-h0.30"])
def test_a_graph_is_what_its_files_say(root, name):
    data = gread.load(name, root=root)
    assert torch.equal(data.x, GRAPH.x)
    assert torch.equal(data.y, GRAPH.y)
    edges = remove_self_loops(data.edge_index)[0]
    assert torch.equal(edges, to_undirected(GRAPH.edge_index))
    loops = data.num_edges - edges.size(1)
    assert loops == (NODES if name in ("chameleon", "squirrel") else 0)
    if name in NAMES:
        assert all(torch.equal(data[mask], GRAPH[mask]) for mask in MASKS)
    assert torch.equal(gread.load(name, root=root).x, data.x)  # parsed already


def test_a_file_that_is_another_is_not_read(root, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(root / "WebKB", other / "WebKB")
    (other / "WebKB/texas/raw/out1_graph_edges.txt").write_text("node_id\tnode_id\n0\t1\n")
    with pytest.raises(DataError, match=r"out1_graph_edges\.txt is not the file it should be"):
        gread.load("texas", root=other)


def test_a_model_is_trained_on_it_by_name(root, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GREAD_DATA", str(root))
    options = ("--splits", "0", "--epochs", "3", "--store", str(tmp_path), "--json")
    monkeypatch.setattr(sys, "argv", ["gread", "train", "cornell", *options])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    (row,) = json.loads(capsys.readouterr().out)
    assert row["status"] == "ok"
    assert len(row["fingerprint"]) == 20
