"""Nodes that are added to the training graph."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from torch_geometric.data import Data

from gread import GraphClassifier
from gread.base.errors import InputError
from gread.estimator import automatic
from gread.estimator.automatic import Member, Where
from gread.estimator.propagation import propagated
from gread.models.catalog import MODELS
from tests.estimator.conftest import FAST
from tests.estimator.test_automatic import FEW

OLD, NEW = 130, 20
INDUCTIVE = [name for name, entry in MODELS.items() if not entry.transductive({})]


@pytest.fixture(scope="module")
def parts(data):
    """The first nodes of a graph, and the other nodes with their edges."""
    known = torch.arange(OLD)
    old = data.subgraph(known)
    once = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    return old, data.x[OLD:], once[:, once[1] >= OLD]


@pytest.fixture(scope="module")
def trained(parts):
    return GraphClassifier(settings=FAST).fit(parts[0])


@pytest.mark.parametrize("name", INDUCTIVE)
def test_added_nodes_are_predicted_as_in_the_whole_graph(parts, data, name):
    old, x, edges = parts
    settings = {"epochs": 1, "hidden_channels": 8}
    if "time" in MODELS[name].hyperparameters:
        settings["time"] = 0.1  # keeps growing reactions finite
    classifier = GraphClassifier(name, settings=settings).fit(old)
    grown = classifier.predict_proba(x, edges=edges, added=True)
    assert grown.shape == (NEW, 3)
    if name != "grand++":  # its known nodes are sources
        whole = classifier.predict_proba(data)[OLD:]
        np.testing.assert_allclose(grown, whole, atol=1e-5)


def test_isolated_added_node_does_not_change_other_predictions(trained, data):
    """An isolated node is predicted as a separate graph, and changes no other prediction."""
    lonely = torch.ones(1, 12)
    alone = Data(x=lonely, edge_index=torch.zeros(2, 0, dtype=torch.int64))
    found = trained.predict_proba(lonely, added=True)
    np.testing.assert_allclose(found, trained.predict_proba(alone), atol=1e-6)
    grown = trained._predictions(trained._grown(lonely, None), Where.GROWN)
    np.testing.assert_allclose(grown[:OLD], trained.predict_proba(), atol=1e-6)


def test_added_copy_of_a_node_gets_the_same_prediction(data):
    """In a directed graph, a node with the same sources as another has the same prediction."""
    settings = {"epochs": 12, "hidden_channels": 8, "normalization": "row"}
    classifier = GraphClassifier("gread-x", settings=settings, directed=True).fit(data)
    node = int(data.test_mask[:, 0].nonzero()[0])
    sources = data.edge_index[0, data.edge_index[1] == node]
    edges = torch.stack([sources, torch.full_like(sources, 150)])
    found = classifier.predict_proba(data.x[[node]], edges=edges, added=True)
    np.testing.assert_allclose(found[0], classifier.predict_proba()[node], atol=1e-6)


def test_every_input_format_of_added_nodes_gives_equal_predictions(parts, trained, tmp_path):
    _, x, edges = parts
    first = trained.predict_proba(x, edges=edges, added=True)
    nodes = pandas.DataFrame({"id": range(OLD, OLD + NEW)})
    nodes["x"] = x.tolist()
    table = pandas.DataFrame(edges.numpy().T, columns=["source", "target"])
    table.to_csv(tmp_path / "e.csv", index=False)
    np.savez(tmp_path / "n.npz", id=np.arange(OLD, OLD + NEW), x=x.numpy())
    matrix = scipy.sparse.coo_array((np.ones(edges.size(1)), edges.numpy()), shape=(150, 150))
    for given in (
        (nodes, table),
        (tmp_path / "n.npz", tmp_path / "e.csv"),
        (scipy.sparse.csr_array(x.numpy()), matrix),
    ):
        found = trained.predict_proba(given[0], edges=given[1], added=True)
        np.testing.assert_allclose(found, first, atol=1e-6)
    assert (trained.predict(x, edges=edges, added=True) == first.argmax(1)).all()


def test_numeric_ids_become_text_if_training_ids_are_text(table_graph, columns):
    classifier = GraphClassifier(settings=FAST).fit(table_graph, "topic")
    nodes = pandas.DataFrame({name: values[:2] for name, values in columns[0].items()})
    nodes["id"] = [7, 8]  # numbers, although others are n0, n1
    edges = pandas.DataFrame({"src": ["n0", "7"], "dst": ["7", "8"]})
    addition = classifier.addition(nodes, edges)
    assert addition.ids == ["7", "8"]
    assert classifier.predict(addition, added=True).shape == (2,)


def test_weights_of_old_and_new_edges_are_kept(parts, data):
    old, x, _ = parts
    weight = torch.rand(data.edge_index.size(1), generator=torch.Generator().manual_seed(0)) + 0.1
    matrix = scipy.sparse.coo_array((weight.numpy(), data.edge_index.numpy()), shape=(150, 150))
    matrix = ((matrix + matrix.T) / 2).tocsr()
    classifier = GraphClassifier(settings=FAST)
    classifier.fit(old.x.numpy(), old.y.numpy(), edges=matrix[:OLD, :OLD])
    new = matrix.tolil()
    new[:OLD, :OLD] = 0
    found = classifier.predict_proba(x, edges=new.tocsr(), added=True)
    whole = classifier.predict_proba(data.x.numpy(), edges=matrix)
    np.testing.assert_allclose(found, whole[OLD:], atol=1e-5)


def test_degrees_are_those_of_the_grown_graph(parts, data):
    old, _, edges = parts
    bare = old.clone()
    bare.x, bare.num_nodes = None, OLD
    classifier = GraphClassifier(settings=FAST).fit(bare)
    whole = data.clone()
    whole.x, whole.num_nodes = None, 150
    nodes = pandas.DataFrame({"id": range(OLD, 150)})
    pairs = pandas.DataFrame(edges.numpy().T, columns=["source", "target"])
    found = classifier.predict_proba(nodes, edges=pairs, added=True)
    np.testing.assert_allclose(found, classifier.predict_proba(whole)[OLD:], atol=1e-5)


@pytest.fixture(scope="module")
def blended(parts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automatic, "portfolio", lambda: FEW)
        return GraphClassifier("auto", time=0.02).fit(parts[0])


def with_weights(classifier, **shares):
    """Classifier with the given member weights for added nodes, by model."""
    other = clone(classifier)
    vars(other).update({k: v for k, v in vars(classifier).items() if k.endswith("_")})
    members = [
        replace(one, weight=1.0, grown=shares.get(one.candidate.model, 0.0))
        for one in classifier.blend_.members
    ]
    other.blend_ = replace(classifier.blend_, members=members, temperatures=(1.0, 1.0, 1.0))
    return other


def test_a_blend_predicts_added_nodes_without_members_bound_to_nodes(blended, parts):
    _, x, edges = parts
    found = blended.predict_proba(x, edges=edges, added=True)
    assert found.sum(1) == pytest.approx(1)
    used = [one for one in blended.blend_.members if one.grown]
    assert sum(one.grown for one in used) == pytest.approx(1)
    assert not any(one.candidate.bound() for one in used)


def test_label_propagation_reaches_added_nodes(blended, parts, data):
    _, x, edges = parts
    members = [Member(FEW[0], 0.0, 1.0, 0.0, None)]
    other = with_weights(blended)
    other.blend_ = replace(other.blend_, members=members)
    found = other.predict_proba(x, edges=edges, added=True)
    whole = data.clone()
    known = torch.cat([blended.data_.train_mask | blended.data_.val_mask, torch.zeros(NEW).bool()])
    np.testing.assert_allclose(
        found, propagated(whole, known, other.task_, whole.y)[OLD:], atol=1e-6
    )


def test_left_out_lists_members_that_cannot_predict(blended):
    other = with_weights(blended)
    members = [Member(one, 0.25, 0.0, 0.0, None) for one in (FEW[0], FEW[1], FEW[4])]
    other.blend_ = replace(other.blend_, members=members)
    assert other.left_out(added=True) == ["LINKX"]
    assert other.left_out() == ["Label propagation", "LINKX"]
    with pytest.raises(InputError, match="no trained candidate can predict"):
        other.predict_proba(torch.ones(1, 12), added=True)


def test_older_blend_folder_is_loaded_and_predicts_added_nodes(blended, parts, tmp_path):
    folder = blended.save(tmp_path / "model")
    again = GraphClassifier.load(folder)
    x, edges = parts[1:]
    expected = blended.predict_proba(x, edges=edges, added=True)
    np.testing.assert_array_equal(again.predict_proba(x, edges=edges, added=True), expected)
    about = json.loads((folder / "classifier.json").read_text())
    del about["blend"]["temperatures"][2]
    for row in about["blend"]["members"]:
        del row["grown"]
        scaling = row["candidate"].pop("scaling")
        row["candidate"]["encoding"] = {"none": "given", "row": "rows"}.get(scaling, scaling)
    (folder / "classifier.json").write_text(json.dumps(about))
    old = GraphClassifier.load(folder)
    np.testing.assert_array_equal(old.predict_proba(), blended.predict_proba())
    assert old.predict_proba(x, edges=edges, added=True).sum(1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        ({"id": [0]}, None, "node ids must be unique, got 1 repeated in the training graph and"),
        ({"id": [OLD]}, {"source": [OLD], "target": [999]}, "whose 'target' is none of them: 999"),
        ({"id": []}, None, "nodes must have a node, got no rows"),
        (None, None, "nodes to add must be a file, a DataFrame or features"),
    ],
)
def test_invalid_added_nodes_raise_input_error(trained, nodes, edges, sentence):
    frame = nodes
    if nodes is not None:
        frame = pandas.DataFrame(nodes)
        frame["x"] = [[0.0] * 12] * len(frame)
    pairs = None if edges is None else pandas.DataFrame(edges)
    with pytest.raises(InputError, match=sentence):
        trained.predict(frame, edges=pairs, added=True)


def test_transductive_model_rejects_added_nodes(parts):
    settings = {"epochs": 1, "hidden_channels": 8}
    classifier = GraphClassifier("linkx", settings=settings).fit(parts[0])
    with pytest.raises(InputError, match="it cannot predict new nodes: train one that can"):
        classifier.predict(parts[1], added=True)


def test_adding_nodes_without_the_training_graph_raises_input_error(trained, tmp_path):
    folder = trained.save(tmp_path / "m")
    shutil.copytree(folder, tmp_path / "shared")
    (tmp_path / "shared" / "graph.safetensors").unlink()
    loaded = GraphClassifier.load(tmp_path / "shared")
    with pytest.raises(InputError, match="was shared without its training graph"):
        loaded.predict(torch.ones(1, 12), added=True)
