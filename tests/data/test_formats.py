"""Every benchmark is read from files of its format that contain a generated graph."""

import json
import shutil
import sys

import pytest
import torch
from torch_geometric.utils import remove_self_loops, to_undirected

import gread
from gread.cli import main
from gread.data.files import DataError
from gread.runs import train
from tests.data.stand_ins import CITATIONS, GRAPH, MASKS, NODES, YEARS, write_stand_ins

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
def test_loaded_graph_matches_its_files(root, name):
    data = gread.load(name, root=root)
    assert torch.equal(data.x, GRAPH.x)
    assert torch.equal(data.y, GRAPH.y)
    edges = remove_self_loops(data.edge_index)[0]
    assert torch.equal(edges, to_undirected(GRAPH.edge_index))
    loops = data.num_edges - edges.size(1)
    assert loops == (NODES if name in ("chameleon", "squirrel") else 0)
    if name in NAMES:
        assert all(torch.equal(data[mask], GRAPH[mask]) for mask in MASKS)
    assert torch.equal(gread.load(name, root=root).x, data.x)  # from the cache


@pytest.mark.parametrize("name", ["arxiv-year", "arxiv-subject"])
def test_citations_keep_their_direction_and_are_counted_as_features(root, name):
    data = gread.load(name, root=root, directed=True)
    assert torch.equal(data.edge_index, CITATIONS)
    counts = [CITATIONS[end].bincount(minlength=NODES) for end in (1, 0)]
    torch.testing.assert_close(data.x.expm1(), torch.stack(counts, dim=1).float())
    both = gread.load(name, root=root)
    assert torch.equal(both.edge_index, to_undirected(CITATIONS))
    assert torch.equal(both.x, data.x)
    back = gread.load(name, root=root, directed="reversed")
    assert torch.equal(back.edge_index, CITATIONS.flip(0))
    with pytest.raises(gread.InputError, match="directed must be true, false or 'reversed'"):
        gread.load(name, root=root, directed="back")


def test_arxiv_year_classes_are_quintiles_of_the_year(root):
    data = gread.load("arxiv-year", root=root)
    year = torch.from_numpy(YEARS).double()
    for label in range(1, 5):
        assert torch.equal(data.y >= label, year >= year.quantile(label / 5))
    assert sorted(data.y.unique().tolist()) == [0, 1, 2, 3, 4]
    masks = torch.stack([data[mask] for mask in MASKS])
    assert masks.shape == (3, NODES, 10)
    assert (masks.sum(dim=0) == 1).all()
    shares = masks.double().mean(dim=(1, 2))
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.25, 0.25]).double(), atol=0.01, rtol=0)


def test_subjects_have_the_split_of_the_file(root):
    data = gread.load("arxiv-subject", root=root)
    assert torch.equal(data.y, GRAPH.y)
    assert all(torch.equal(data[mask], GRAPH[mask][:, :1]) for mask in MASKS)


@pytest.mark.parametrize("name", ["amazon-computers", "arxiv-year"])
def test_file_without_download_url_is_reported_and_never_removed(root, tmp_path, name):
    with pytest.raises(
        DataError, match=r"real/.*npz is not in .*GitHub\): put it there, or set GREAD"
    ):
        gread.load(name, root=tmp_path)
    shutil.copytree(root / "real", tmp_path / "real")
    for file in (tmp_path / "real").iterdir():
        file.write_bytes(b"another")
    with pytest.raises(DataError, match=r"npz is not the expected file .*: replace it"):
        gread.load(name, root=tmp_path)
    assert len(list((tmp_path / "real").iterdir())) == 3


def test_file_with_a_wrong_digest_is_rejected(root, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(root / "WebKB", other / "WebKB")
    (other / "WebKB/texas/raw/out1_graph_edges.txt").write_text("node_id\tnode_id\n0\t1\n")
    with pytest.raises(DataError, match=r"out1_graph_edges\.txt is not the expected file"):
        gread.load("texas", root=other)


@pytest.mark.parametrize("name", ["cornell", "coauthor-cs", "arxiv-year", "arxiv-subject"])
def test_train_command_accepts_dataset_names(root, tmp_path, monkeypatch, capsys, name):
    monkeypatch.setenv("GREAD_DATA", str(root))
    options = ("--splits", "0", "--epochs", "3", "--store", str(tmp_path), "--json")
    monkeypatch.setattr(sys, "argv", ["gread", "train", name, *options])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    (row,) = json.loads(capsys.readouterr().out)
    assert row["status"] == "ok"
    assert len(row["fingerprint"]) == 20


def test_preset_option_selects_directed_edges(root, tmp_path, monkeypatch):
    monkeypatch.setenv("GREAD_DATA", str(root))
    preset = tmp_path / "directed.toml"
    preset.write_text("[arxiv-year]\noptions = { directed = true }\n")
    options = {"store": tmp_path, "splits": [0], "settings": {"epochs": 1}}
    (both,) = train("arxiv-year", "gcn", **options)
    (directed,) = train("arxiv-year", "gcn", preset=str(preset), **options)
    assert directed.spec.options == {"directed": True}
    assert both.fingerprint != directed.fingerprint
