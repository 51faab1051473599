import pickle
import shutil
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import contains_self_loops, is_undirected

import gread
from gread.base.errors import InputError
from gread.data.catalog import LEVELS
from gread.data.files import DataError, manifest
from gread.data.real import undirected, undirected_with_loops
from tests.checks import permuted

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PINNED = tomllib.loads(Path(__file__).with_name("statistics.toml").read_text())
MASKS = ("train_mask", "val_mask", "test_mask")


def need(root: Path, files: str) -> None:
    """Skip a test whose files are missing and cannot be downloaded."""
    for file in manifest():
        if file.path.startswith(files) and not file.url and not (root / file.path).exists():
            pytest.skip(f"{root} has no {file.path}: link the folder of these files there")


@pytest.mark.parametrize("name", PINNED)
def test_statistics_are_as_pinned(real_root, name):
    need(real_root, gread.DATASETS[name].files)
    s = gread.DATASETS[name].statistics(real_root)
    pinned = PINNED[name]
    assert [s.nodes, s.edges, s.edges_with_loops, s.features, s.classes] == pinned["counts"]
    assert [round(s.node_homophily, 3), round(s.edge_homophily, 3)] == pinned["homophily"]
    assert s.splits == 10


@pytest.mark.parametrize("name", [n for n, entry in gread.DATASETS.items() if entry.stored])
def test_catalog_has_the_size_of_every_stored_dataset(name):
    entry = gread.DATASETS[name]
    told = entry.paper or entry.size
    if entry.size and name in PINNED:
        assert [told["nodes"], told["edges"]] == PINNED[name]["counts"][:2]
    assert told["nodes"] > 0 and told["edges"] > 0


@pytest.mark.parametrize("name", PINNED)
def test_graphs_are_clean_and_masks_disjoint(real_root, name):
    need(real_root, gread.DATASETS[name].files)
    data = gread.load(name, root=real_root)
    assert is_undirected(data.edge_index)
    assert data.is_coalesced()
    with_loops = name in ("chameleon", "squirrel")
    assert contains_self_loops(data.edge_index) == with_loops
    assert data.num_edges == 2 * PINNED[name]["counts"][1] + with_loops * data.num_nodes
    masks = torch.stack([data[mask] for mask in MASKS])
    assert masks.dtype == torch.bool
    assert masks.shape == (3, data.num_nodes, 10)
    assert masks.sum(dim=0).max() == 1
    if "split" in PINNED[name]:
        assert masks.sum(dim=1).T.tolist() == [PINNED[name]["split"]] * 10
    assert data.x.dtype == torch.float32
    assert data.y.dtype == torch.int64


def test_amazon_features_are_binary_and_coauthor_features_are_counts(real_root):
    need(real_root, "real/")
    computers, authors = (
        gread.load(n, root=real_root) for n in ("amazon-computers", "coauthor-cs")
    )
    assert (computers.x.count_nonzero(), computers.x.sum()) == (3_675_081, 3_675_081)
    assert computers.x.max() == 1
    assert (authors.x.count_nonzero(), authors.x.max()) == (1_092_079, 105)


@pytest.mark.slow
def test_arxiv_has_the_counts_of_the_literature(real_root):
    need(real_root, "real/")
    by_year, by_subject = (
        gread.load(f"arxiv-{of}", root=real_root, directed=True) for of in ("year", "subject")
    )
    assert by_year.y.bincount().tolist() == [31971, 21189, 37781, 29799, 48603]
    assert int(by_subject.y.max()) == 39
    assert [int(by_subject[mask].sum()) for mask in MASKS] == [90941, 29799, 48603]
    assert [round(float(by_year[mask].double().mean()), 4) for mask in MASKS] == [0.5, 0.25, 0.25]
    for data, same in ((by_year, 0.222), (by_subject, 0.655)):
        assert (data.num_nodes, data.num_edges) == (169_343, 1_166_243)
        assert data.is_coalesced()
        assert not contains_self_loops(data.edge_index)
        source, target = data.edge_index  # over citations; edge_homophily counts pairs of nodes
        assert round(float((data.y[source] == data.y[target]).double().mean()), 3) == same
    source, target = by_year.edge_index  # a paper is rarely older than the papers it cites
    assert (by_year.y[source] >= by_year.y[target]).double().mean() > 0.98


def test_coras_splits_cover_the_largest_component(real_root):
    data = gread.load("cora", root=real_root)
    covered = (data.train_mask | data.val_mask | data.test_mask).sum(dim=0)
    assert covered.tolist() == [2485] * 10
    largest = gread.load("cora", root=real_root, largest_component=True)
    assert largest.num_nodes == 2485
    assert (largest.train_mask | largest.val_mask | largest.test_mask).all()


def test_citeseers_splits_4_and_5_cover_the_largest_component(real_root):
    data = gread.load("citeseer", root=real_root)
    covered = (data.train_mask | data.val_mask | data.test_mask).sum(dim=0).tolist()
    assert covered == [2120 if split in (4, 5) else 3327 for split in range(10)]


def test_cornell_has_the_labels_of_texas_and_the_degrees_of_cornell_fixed(real_root):
    old, texas, fixed = (
        gread.load(name, root=real_root) for name in ("cornell", "texas", "cornell-fixed")
    )
    assert torch.equal(old.y, texas.y)
    assert torch.equal(old.x, texas.x)
    assert not torch.equal(old.y, fixed.y)
    degrees = [data.edge_index[0].bincount(minlength=183).sort().values for data in (old, fixed)]
    assert torch.equal(*degrees)


@pytest.mark.parametrize("level", LEVELS)
def test_synthetic_cora_has_the_homophily_in_its_name(real_root, level):
    for graph in (1, 2, 3):
        data = gread.load(f"syn-cora-h{level}", root=real_root, graph=graph)
        assert data.y.bincount().tolist() == [298] * 5
        assert data.num_edges == 2 * (2965 if level == "1.00" else 2968)
        homophily = gread.edge_homophily(data.edge_index, data.y)
        assert homophily == pytest.approx(float(level), abs=0.023)
        assert [int(data[mask][:, 0].sum()) for mask in MASKS] == [375, 370, 745]


def test_synthetic_cora_graphs_differ_and_a_fourth_is_rejected(real_root):
    one, two = (gread.load("syn-cora-h0.30", root=real_root, graph=g) for g in (1, 2))
    assert not torch.equal(one.edge_index, two.edge_index)
    with pytest.raises(InputError, match="graph must be 1, 2 or 3, got 4"):
        gread.load("syn-cora-h0.30", root=real_root, graph=4)


def test_features_are_normalized_on_request(real_root):
    raw = gread.load("texas", root=real_root)
    rows = gread.load("texas", root=real_root, normalize_features=True).x.sum(dim=1)
    assert raw.x.max() == 1
    torch.testing.assert_close(rows, torch.ones(183))


def test_columns_are_standardized_on_request(real_root):
    x = gread.load("texas", root=real_root, standardize_features=True).x
    deviation, mean = torch.std_mean(x, dim=0, correction=0)
    assert mean.abs().max() < 1e-6
    constant = deviation == 0  # words that occur on no page
    assert torch.allclose(deviation[~constant], torch.ones(()), atol=1e-5)
    assert not x[:, constant].any()


def part_of(root: Path, prefix: str, place: Path) -> Path:
    """Data root with only some of the files."""
    for file in manifest():
        if file.path.startswith(prefix):
            (place / file.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / file.path, place / file.path)
    return place


def test_a_pickle_that_is_not_the_pinned_one_is_never_opened(real_root, tmp_path):
    root = part_of(real_root, "Planetoid/Cora/", tmp_path / "root")
    trace = tmp_path / "opened"

    class Opened:
        def __reduce__(self):
            return Path.touch, (trace,)

    bad = root / "Planetoid/Cora/geom-gcn/raw/ind.cora.tx"
    bad.write_bytes(pickle.dumps(Opened()))
    with pytest.raises(DataError, match=r"ind.cora.tx is not the expected file"):
        gread.load("cora", root=root)
    assert not trace.exists()
    assert not bad.exists()


def test_a_whole_dataset_is_downloaded_from_a_mirror(real_root, tmp_path, server, monkeypatch):
    server.files = {
        file.path: (real_root / file.path).read_bytes()
        for file in manifest()
        if file.path.startswith("WebKB/texas/")
    }
    monkeypatch.setenv("GREAD_MIRROR", server.address)
    downloaded = gread.load("texas", root=tmp_path)
    assert len(server.asked) == 12
    here = gread.load("texas", root=real_root)
    assert torch.equal(downloaded.edge_index, here.edge_index)
    assert torch.equal(downloaded.x, here.x)
    shutil.rmtree(tmp_path / "WebKB")
    assert torch.equal(gread.load("texas", root=tmp_path).x, here.x)  # the parsed form suffices


def test_error_for_a_missing_dataset_offline_suggests_remedies(tmp_path, monkeypatch):
    monkeypatch.setenv("GREAD_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(
        DataError, match=r"WebKB/texas/raw/.* is not in .*: put it there, or set GREAD_DATA"
    ):
        gread.load("texas", root=tmp_path)


def test_no_pickle_is_written(real_root):
    gread.load("cora", root=real_root)
    files = {path.suffix for path in (real_root / "processed").iterdir()}
    assert files <= {".safetensors", ".lock"}
    assert not list(real_root.rglob("*.pt"))


graphs = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30).map(
        lambda pairs: Data(
            x=torch.arange(float(n)).view(-1, 1),
            y=torch.zeros(n, dtype=torch.int64),
            edge_index=torch.tensor(pairs, dtype=torch.int64).view(-1, 2).T,
        )
    )
)


@pytest.mark.slow
@pytest.mark.parametrize("transform", [undirected, undirected_with_loops])
@settings(deadline=None, max_examples=60)
@given(data=graphs, seed=st.integers(0, 99))
def test_transforms_are_idempotent_and_do_not_depend_on_the_numbering(transform, data, seed):
    once = transform(data.clone())
    assert torch.equal(transform(once.clone()).edge_index, once.edge_index)
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(seed))
    here = permuted(once, order).edge_index
    there = transform(permuted(data, order)).edge_index
    assert set(map(tuple, here.T.tolist())) == set(map(tuple, there.T.tolist()))


def test_unknown_dataset_error_lists_names_and_suggests_the_nearest():
    with pytest.raises(
        InputError, match=r"unknown dataset 'corra', did you mean 'cora'\?.* texas, "
    ):
        gread.load("corra")
    with pytest.raises(
        InputError, match="texas has no option 'split'; choose from: normalize_feat"
    ):
        gread.load("texas", split=3)
