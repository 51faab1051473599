"""Sparse features stay sparse from the table to the model."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import gread
from gread import GraphClassifier
from gread.base.errors import InputError
from gread.estimator.fitted import as_tensor
from gread.graph.checks import check_features
from gread.graph.partition import stack_rows, take_rows
from gread.graph.structure.catalog import add_structure
from gread.models.catalog import MODELS
from gread.training.fit import inputs_of
from tests.estimator.conftest import FAST


@pytest.fixture(scope="module")
def words(data):
    """Sparse word counts for every node."""
    rng = np.random.default_rng(0)
    mean = 0.02 + 0.3 * (np.arange(60) % 3 == data.y.numpy()[:, None])
    return rng.poisson(mean)


@pytest.fixture
def always_sparse(monkeypatch):
    monkeypatch.setattr("gread.tables.features.WORTH", 0)


def fitted(x, data, **settings):
    edges = data.edge_index.numpy()
    return GraphClassifier(settings=FAST | settings).fit(x, data.y.numpy(), edges=edges)


@pytest.mark.parametrize("settings", [{}, {"parts": 3}], ids=["whole", "parts"])
def test_a_sparse_matrix_trains_the_same_model(words, data, settings, monkeypatch):
    dense = fitted(words, data, **settings)
    assert dense.data_.x.layout is torch.strided
    monkeypatch.setattr("gread.tables.features.WORTH", 0)
    sparse = fitted(csr_array(words), data, **settings)
    assert sparse.data_.x.layout is torch.sparse_csr
    assert sparse.diagnosis_ == dense.diagnosis_
    np.testing.assert_array_equal(sparse.data_.x.to_dense(), dense.data_.x)
    np.testing.assert_allclose(sparse.predict_proba(), dense.predict_proba(), atol=1e-5)


def test_sparse_features_are_unchanged_by_save_and_load(words, data, always_sparse, tmp_path):
    kept = fitted(csr_array(words), data)
    loaded = GraphClassifier.load(kept.save(tmp_path / "m"))
    assert loaded.data_.x.layout is torch.sparse_csr
    np.testing.assert_array_equal(loaded.predict_proba(), kept.predict_proba())
    again = loaded.save(tmp_path / "again")
    for name in ("classifier.json", "graph.safetensors"):
        assert (again / name).read_bytes() == (tmp_path / "m" / name).read_bytes()


def test_corrupt_sparse_graph_file_raises_input_error(words, data, always_sparse, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = fitted(csr_array(words), data).save(tmp_path / "m")
    tensors = load_file(folder / "graph.safetensors")
    tensors["x_indices"][0] = 10**6
    save_file(tensors, folder / "graph.safetensors")
    with pytest.raises(InputError, match=r"graph\.safetensors is not a valid file of gread"):
        GraphClassifier.load(folder)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_gives_the_same_output_for_sparse_features(name, words, data):
    x, entry = torch.from_numpy(words).float() / 10, MODELS[name]
    graph = data.clone()
    graph.x = x
    graph = graph if entry.structure is None else add_structure(graph, entry.structure).data
    model = entry.make(60, 8, 3, num_nodes=150).eval()
    extra = inputs_of(model, graph, graph.train_mask[:, 0])
    sparse = as_tensor(csr_array(x.numpy()))
    with torch.no_grad():
        found = model(sparse, graph.edge_index, None, **extra)  # before anything is cached
        expected = model(x, graph.edge_index, None, **extra)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_take_rows_selects_rows_of_a_sparse_tensor(words):
    x = as_tensor(csr_array(words.astype(np.float32)))
    rows = torch.tensor([5, 2, 2, 149])
    assert torch.equal(take_rows(x, rows).to_dense(), x.to_dense()[rows])
    assert take_rows(x, rows[:0]).shape == (0, 60)


@pytest.mark.parametrize("sparse", [(True, True), (True, False), (False, True), (False, False)])
def test_stacked_rows_have_the_layout_of_the_first_tensor(words, sparse):
    parts = words[:4].astype(np.float32), words[4:10].astype(np.float32)
    given = [
        as_tensor(csr_array(part) if is_sparse else part)
        for part, is_sparse in zip(parts, sparse, strict=True)
    ]
    found = stack_rows(*given)
    assert found.layout is given[0].layout
    np.testing.assert_array_equal(found.to_dense(), np.concatenate(parts))


def test_sparse_and_dense_added_nodes_give_equal_predictions(words, data, always_sparse):
    kept = fitted(csr_array(words), data)
    found = kept.predict_proba(csr_array(words[:3]), added=True)
    dense = kept.predict_proba(words[:3], added=True)
    np.testing.assert_allclose(found, dense, atol=1e-6)


def test_sparse_features_must_be_finite(words):
    broken = csr_array(words.astype(np.float32))
    broken.data[0] = np.nan
    row = int(np.flatnonzero(np.diff(broken.indptr))[0])
    with pytest.raises(InputError, match=f"got NaN or infinity in row {row}"):
        check_features("x", as_tensor(broken), 60)
    with pytest.raises(InputError, match=f"in 1 rows, the first in row {row + 1}: replace them"):
        edges = np.array([[0], [1]])
        gread.GraphClassifier().fit(broken, np.arange(150) % 3, edges=edges)
