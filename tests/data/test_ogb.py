"""The loader of ogb, on a small graph in the layout of ogbn-arxiv."""

import gzip
import sys
from importlib.util import find_spec

import pytest
import torch

import gread
from gread.data.files import DataError

EDGES = [(0, 1), (1, 2), (3, 4), (4, 4)]


@pytest.fixture
def arxiv(tmp_path):
    folder = tmp_path / "ogb" / "ogbn_arxiv"
    files = {
        "raw/edge.csv.gz": "\n".join(f"{a},{b}" for a, b in EDGES),
        "raw/node-feat.csv.gz": "\n".join("0.5,1.5" for _ in range(5)),
        "raw/node-label.csv.gz": "\n".join("01010"),
        "raw/node_year.csv.gz": "\n".join("2020" for _ in range(5)),
        "raw/num-node-list.csv.gz": "5",
        "raw/num-edge-list.csv.gz": str(len(EDGES)),
        "split/time/train.csv.gz": "0\n1\n2",
        "split/time/valid.csv.gz": "3",
        "split/time/test.csv.gz": "4",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(gzip.compress(text.encode() + b"\n"))
    (folder / "RELEASE_v1.txt").touch()
    return tmp_path


@pytest.mark.filterwarnings("ignore")
def test_ogbn_loads_through_ogb(arxiv):
    if find_spec("ogb") is None:  # importing it would look up newer releases on the network
        pytest.skip("the extra ogb is not installed")
    safe = set(torch.serialization.get_safe_globals())
    data = gread.load("ogbn-arxiv", root=arxiv)
    assert set(torch.serialization.get_safe_globals()) == safe
    assert data.num_nodes == 5
    assert data.x.tolist() == [[0.5, 1.5]] * 5
    assert data.y.tolist() == [0, 1, 0, 1, 0]
    assert sorted(data.edge_index.T.tolist()) == [[0, 1], [1, 0], [1, 2], [2, 1], [3, 4], [4, 3]]
    assert data.train_mask.squeeze(1).tolist() == [True, True, True, False, False]
    assert data.test_mask.shape == (5, 1)
    assert torch.equal(gread.load("ogbn-arxiv", root=arxiv).x, data.x)
    assert gread.DATASETS["ogbn-arxiv"].statistics(arxiv).edges_with_loops == 4


def test_missing_ogb_package_error_names_the_pip_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
    with pytest.raises(DataError, match=r"needs the package ogb: pip install 'gread\[ogb\]'"):
        gread.load("ogbn-products", root=tmp_path)


def test_statistics_without_build_do_not_download_datasets(tmp_path):
    assert gread.DATASETS["ogbn-products"].statistics(tmp_path, build=False) is None
