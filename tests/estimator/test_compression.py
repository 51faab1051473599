"""Principal components of wide features, from model selection to the model folder."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

import gread
from gread.estimator.candidates import Candidate, portfolio
from gread.estimator.compression import RANK, components, is_heavy, is_wide
from gread.estimator.export import scorer_of
from gread.estimator.problem import Problem
from gread.estimator.task import Classes
from gread.graph.partition import sparse_tensor
from tests.estimator.conftest import only

FAST = {"epochs": 5, "hidden_channels": 4}
FEW = (
    Candidate("MLP", "mlp", FAST),
    Candidate("MLP with neighbours' labels", "mlp", FAST, neighbours=True),
    Candidate("GREAD-X", "gread-x", {**FAST, "num_steps": 1}),
)


def sparse(x):
    found = csr_matrix(x.numpy())
    places = (torch.from_numpy(part).long() for part in (found.indptr, found.indices))
    return sparse_tensor(*places, torch.from_numpy(found.data), x.shape)


@pytest.fixture(scope="module")
def wide():
    """Graph with few features, embedded into many coordinates with noise."""
    data = gread.load("csbm", num_nodes=120, homophily=0.9, degree=6)
    random = torch.Generator().manual_seed(0)
    data.x = data.x @ torch.randn(data.x.size(1), 300, generator=random)
    data.x += 0.1 * torch.randn(data.x.shape, generator=random)
    return data


@pytest.fixture(scope="module")
def fitted(wide):
    with only(*FEW):
        return gread.GraphClassifier().fit(wide)


def test_compression_preserves_inner_products_of_low_rank_features():
    random = torch.Generator().manual_seed(0)
    x = torch.randn(200, 20, generator=random) @ torch.randn(20, 300, generator=random)
    found = x @ components(x)
    assert found.shape == (200, RANK)
    given, compressed = x @ x.T, found @ found.T
    torch.testing.assert_close(compressed / compressed.norm(), given / given.norm())
    assert found.square().mean().item() == pytest.approx(1)


def test_sparse_and_dense_features_have_the_same_components():
    x = (torch.rand(60, 300, generator=torch.Generator().manual_seed(1)) < 0.3).float()
    torch.testing.assert_close(sparse(x) @ components(sparse(x)), x @ components(x))


@pytest.mark.parametrize(("columns", "filled", "wide", "heavy"), [
    (100, 100, False, False), (300, 300, True, True), (1000, 50, True, False),
])  # fmt: skip
def test_is_wide_counts_columns_and_is_heavy_counts_stored_values(columns, filled, wide, heavy):
    x = torch.zeros(10, columns)
    x[:, :filled] = 1.0
    assert (is_wide(sparse(x)), is_heavy(sparse(x))) == (wide, heavy)


def test_candidates_use_components_for_heavy_features(wide):
    narrow = gread.load("csbm", num_nodes=60)
    task = Classes((0, 1), "accuracy")
    for one in portfolio():
        heavy = Problem(wide, np.arange(9), task).suited(one)
        assert heavy.compressed == (one.model != "label-propagation")
        assert Problem(narrow, np.arange(9), task).suited(one) == one


def test_loaded_classifier_uses_the_components_from_training(fitted, wide, tmp_path):
    assert fitted.blend_.components.shape == (300, 120)
    again = gread.GraphClassifier.load(fitted.save(tmp_path / "model"))
    assert np.array_equal(again.predict_proba(), fitted.predict_proba())
    other = wide.subgraph(torch.arange(50))  # its own components would differ
    assert np.array_equal(again.predict_proba(other), fitted.predict_proba(other))


def test_exported_program_accepts_uncompressed_features(fitted, wide):
    scorer, about = scorer_of(fitted)
    assert len(about["features"]) == 300
    given = fitted._inputs(fitted.read(wide))
    expected = fitted.predict_proba(wide)
    np.testing.assert_allclose(scorer(given.x, given.edge_index).numpy(), expected, atol=1e-5)


def test_explanation_names_the_uncompressed_features(fitted):
    names = {name for name, _ in fitted.explain(3).features}
    assert names
    assert all(name.startswith(("x", "neighbourhood[")) for name in names), names
