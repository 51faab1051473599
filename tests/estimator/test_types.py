"""Edge types: one operator for each, from the file to the model folder."""

import json

import networkx
import numpy as np
import pandas
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch_geometric.data import Data

import gread
from gread.base.errors import InputError
from gread.estimator import automatic
from gread.estimator.candidates import Candidate, portfolio
from gread.estimator.fitted import MOST_TYPES
from gread.estimator.problem import Problem
from gread.estimator.race import race
from gread.estimator.task import Classes
from tests.estimator.conftest import train

FAST = {"epochs": 12, "hidden_channels": 8, "self_loops": 0.0}
FEW = (
    Candidate("MLP", "mlp", {"epochs": 5, "hidden_channels": 4}),
    Candidate("GREAD-X, typed", "gread-x", {**FAST, "num_steps": 1}, typed=True),
    Candidate("Neighbours", "mlp", {"epochs": 5}, neighbours=True, typed=True),
)
NODES = 150


@pytest.fixture(scope="module")
def frames():
    """Tables with three classes: friends share a class, rivals do not, ``any`` may."""
    random = np.random.default_rng(0)
    y = random.integers(3, size=NODES)
    pairs = np.unique(np.sort(random.integers(NODES, size=(900, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    types = np.where(random.random(len(pairs)) < 0.2, "any", np.where(same, "friend", "rival"))
    edges = pandas.DataFrame({"source": pairs[:, 0], "target": pairs[:, 1], "kind": types})
    twice = edges[:40].assign(kind="any")  # pairs with edges of two types
    nodes = pandas.DataFrame({"id": range(NODES), "topic": [f"t{k}" for k in y]})
    nodes["a"] = (random.normal(size=NODES) + y).round(3)
    nodes["b"] = (random.normal(size=NODES) + (y == 1)).round(3)
    nodes.loc[::10, "topic"] = None
    return nodes, pandas.concat([edges, twice], ignore_index=True)


def fitted(frames, edges=None, model="gread-x", edge_type="kind", **options):
    settings = None if model == "auto" else FAST
    classifier = gread.GraphClassifier(model, settings=settings, edge_type=edge_type, **options)
    return classifier.fit(frames[0], "topic", edges=frames[1] if edges is None else edges)


@pytest.fixture(scope="module")
def typed(frames):
    return fitted(frames)


@pytest.fixture(scope="module")
def blended(frames):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automatic, "portfolio", lambda: FEW)
        return fitted(frames, model="auto", time=0.05)


def test_types_are_sorted_by_frequency_and_each_has_an_operator(typed, frames):
    counts = frames[1].drop_duplicates()["kind"].value_counts()
    assert typed.types_ == tuple(counts.index)
    assert typed.settings_["num_relations"] == 3
    assert typed.data_.num_relations == 3
    per_type = typed.data_.relation_type.bincount().tolist()
    assert per_type == [2 * count for count in counts]  # in both directions
    note = "Edges have 3 types: "
    assert any(told.startswith(note) for told in typed.diagnosis_.notes)


@pytest.mark.parametrize("model", ["gread-x", "tuned-gcn", "gcn", "mlp"])
def test_single_edge_type_equals_training_without_types(frames, model):
    settings = {"epochs": 5, "hidden_channels": 8}
    edges = frames[1][["source", "target"]].drop_duplicates()
    same = gread.GraphClassifier(model, settings=settings, edge_type="kind")
    same.fit(frames[0], "topic", edges=edges.assign(kind="all"))
    none = gread.GraphClassifier(model, settings=settings).fit(frames[0], "topic", edges=edges)
    assert np.array_equal(same.predict_proba(), none.predict_proba())
    assert "All edges have the type all: types are not used." in same.diagnosis_.notes


@pytest.mark.parametrize(
    "change",
    [
        lambda edges: edges.assign(
            kind=edges["kind"].map({"any": "z", "friend": "y", "rival": "x"})
        ),
        lambda edges: edges.assign(kind=edges["kind"].map({"any": 3, "friend": 1, "rival": 2})),
        lambda edges: edges.sample(frac=1.0, random_state=1),
        lambda edges: pandas.concat([edges, edges[:30]]),
    ],
    ids=["names", "numbers", "order", "repeated"],
)
def test_predictions_do_not_depend_on_type_names_or_edge_order(typed, frames, change):
    other = fitted(frames, change(frames[1]))
    assert np.array_equal(other.predict_proba(), typed.predict_proba())


def test_model_with_one_operator_uses_all_edge_types_alike(frames):
    plain = gread.GraphClassifier("gcn", settings={"epochs": 5})
    typed = gread.GraphClassifier("gcn", settings={"epochs": 5}, edge_type="kind")
    for one in (plain, typed):
        one.fit(frames[0], "topic", edges=frames[1])
    assert np.array_equal(plain.predict_proba(), typed.predict_proba())
    assert any("uses all types alike" in told for told in typed.diagnosis_.notes)
    assert typed.data_.edge_index.size(1) < typed.data_.relation_index.size(1)


@pytest.mark.parametrize("model", ["typed", pytest.param("blended", marks=pytest.mark.slow)])
def test_loaded_typed_model_gives_the_same_predictions(request, frames, tmp_path, model):
    classifier = request.getfixturevalue(model)
    again = gread.GraphClassifier.load(classifier.save(tmp_path / "model"))
    assert again.types_ == classifier.types_
    assert np.array_equal(again.predict_proba(), classifier.predict_proba())
    other = (frames[0], frames[1].sample(frac=1.0, random_state=2))
    here = again.predict_proba(other[0], edges=other[1])
    np.testing.assert_array_equal(here, classifier.predict_proba(other[0], edges=other[1]))
    if model == "typed":
        np.testing.assert_allclose(here, classifier.predict_proba(), atol=1e-6)
    assert "Edges have the types " in (tmp_path / "model" / "README.md").read_text()


def parted(frames, old=130):
    """Graph of the first nodes, and the other nodes with their edges."""
    nodes, edges = frames
    inside = (edges[["source", "target"]] < old).all(axis=1)
    return (nodes[:old], edges[inside]), (nodes[old:].drop(columns="topic"), edges[~inside])


def test_added_nodes_are_predicted_as_in_the_whole_graph(frames):
    old, new = parted(frames)
    classifier = fitted(old)
    grown = classifier.predict_proba(new[0], edges=new[1], added=True)
    whole = classifier.predict_proba(frames[0], edges=frames[1])
    np.testing.assert_allclose(grown, whole[130:], atol=1e-5)
    alone = classifier.predict_proba(new[0], added=True)  # without edges
    assert alone.shape == (NODES - 130, 3)


@pytest.mark.slow
def test_a_blend_predicts_added_nodes(frames, monkeypatch):
    monkeypatch.setattr(automatic, "portfolio", lambda: FEW)
    old, new = parted(frames)
    classifier = fitted(old, model="auto", time=0.05)
    found = classifier.predict_proba(new[0], edges=new[1], added=True)
    assert found.sum(1) == pytest.approx(1)
    assert any(one.candidate.typed for one in classifier.blend_.members)


def test_edge_types_are_read_from_every_input_format(typed, frames, tmp_path):
    nodes, edges = frames
    nodes.to_csv(tmp_path / "n.csv", index=False)
    edges.to_csv(tmp_path / "e.csv", index=False)
    expected = typed.predict_proba(nodes, edges=edges)
    np.testing.assert_allclose(
        typed.predict_proba(tmp_path / "n.csv", edges=tmp_path / "e.csv"), expected, atol=1e-6
    )
    graph = networkx.MultiGraph()
    for row in nodes.drop(columns="topic").to_dict("records"):
        graph.add_node(row.pop("id"), **row)
    for source, target, kind in edges.itertuples(index=False):
        graph.add_edge(source, target, kind=kind)
    np.testing.assert_allclose(typed.predict_proba(graph), expected, atol=1e-6)
    places = {name: place for place, name in enumerate(typed.types_)}
    data = Data(
        x=torch.from_numpy(nodes[["a", "b"]].to_numpy()).float(),
        edge_index=torch.from_numpy(edges[["source", "target"]].to_numpy().T.copy()),
        edge_type=torch.tensor([places[kind] for kind in edges["kind"]]),
        y=torch.arange(NODES) % 2,
    )
    classifier = gread.GraphClassifier("gread-x", settings=FAST, edge_type="edge_type").fit(data)
    assert classifier.types_ == ("0", "1", "2")
    assert classifier.data_.relation_index.equal(typed.data_.relation_index)


def test_rare_edge_types_share_one_operator(frames):
    edges = frames[1].drop(columns="kind").drop_duplicates()
    edges["kind"] = [f"k{min(k % 40, k % 12)}" for k in range(len(edges))]
    classifier = fitted(frames, edges)
    assert len(classifier.types_) == 12
    assert classifier.settings_["num_relations"] == MOST_TYPES
    assert int(classifier.data_.relation_type.max()) == MOST_TYPES - 1
    assert any("; the others count as one." in told for told in classifier.diagnosis_.notes)
    rare = edges[edges["kind"] == classifier.types_[-1]]
    assert classifier.predict_proba(frames[0], edges=rare).shape == (NODES, 3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda edges: edges.assign(kind="enemy"),
            r"edges must have types of the training graph \(.*\), got 'enemy'",
        ),
        (lambda edges: edges.drop(columns="kind"), "has no column 'kind'"),
        (
            lambda edges: edges.assign(kind=[None, *edges["kind"][1:]]),
            "column 'kind' of edges must hold the type of every edge, got none in row 1",
        ),
        (
            lambda edges: edges.assign(kind=0.5),
            "must hold types of edges, as text or whole numbers, got numbers",
        ),
        (
            lambda edges: edges[["source", "target"]].to_numpy().T,
            "edges must be a file or a DataFrame with the column 'kind' of their types",
        ),
    ],
)
def test_invalid_edge_types_raise_input_error(typed, frames, change, sentence):
    for added in (False, True):
        nodes = frames[0].drop(columns="topic")
        nodes = nodes.assign(id=nodes["id"] + NODES) if added else nodes
        with pytest.raises(InputError, match=sentence):
            typed.predict(nodes, edges=change(frames[1]), added=added)


def test_data_without_the_edge_type_tensor_raises_input_error(data):
    classifier = gread.GraphClassifier("gread-x", settings=FAST, edge_type="edge_type")
    with pytest.raises(InputError, match="edge_type must name a tensor of data with a type for"):
        classifier.fit(data)


def test_inconsistent_types_in_a_model_folder_raise_input_error(typed, tmp_path):
    folder = typed.save(tmp_path / "model")
    tensors = load_file(folder / "graph.safetensors")
    for name, wrong in (
        ("relation_type", tensors["relation_type"] + 1),
        ("relation_index", tensors["relation_index"] + NODES),
    ):
        save_file({**tensors, name: wrong}, folder / "graph.safetensors")
        with pytest.raises(InputError, match="is not a valid file of gread"):
            gread.GraphClassifier.load(folder)
    del tensors["relation_type"]
    save_file(tensors, folder / "graph.safetensors")
    with pytest.raises(InputError, match=r"it must hold .*relation_type.* of edges with types"):
        gread.GraphClassifier.load(folder)


@pytest.mark.parametrize("model", ["typed", pytest.param("blended", marks=pytest.mark.slow)])
def test_exporting_a_typed_model_raises_input_error(request, tmp_path, model):
    classifier = request.getfixturevalue(model)
    if model == "blended":
        used = classifier.blend_.used(automatic.Where.ELSEWHERE)
        if not any(one.candidate.typed for one in used):
            pytest.skip("no typed member")
    with pytest.raises(InputError, match="it has an operator for each type of edges"):
        classifier.export(tmp_path / "model.pt2")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["typed", "blended"])
def test_a_node_is_explained_by_edges_of_all_types(request, frames, model):
    classifier = request.getfixturevalue(model)
    found = classifier.explain(7, most=5)
    pairs = {frozenset(pair) for pair in frames[1][["source", "target"]].itertuples(index=False)}
    assert all(frozenset((a, b)) in pairs for a, b, _ in found.edges)
    assert found.edges or model == "blended"
    assert found.features


def problem_of(typed, **about):
    learned = np.flatnonzero(typed.task_.known(typed.data_.y.numpy()))
    return Problem(typed.data_, learned, typed.task_, **about)


def test_typed_candidates_require_edge_types(typed, data):
    some = [one for one in portfolio() if one.typed]
    assert some
    problem = problem_of(typed)
    assert [one.title for one in some if problem.able(one)] == [
        one.title for one in some if not one.directed
    ]
    untyped = Problem(data, np.arange(90), Classes((0, 1, 2), "accuracy"))
    assert not any(untyped.able(one) for one in some)
    found = race(problem, [FEW[1]], seconds=0.0001)
    assert all(one.candidate.typed for one in found)
    with pytest.raises(InputError, match="typed must be false for 'linkx', which has one operator"):
        Candidate("", "linkx", typed=True)


def test_directions_are_detected_within_each_edge_type(frames):
    """Two types that are each other's reverse have directions, although their union has none."""
    pairs = frames[1][["source", "target"]].drop_duplicates()
    back = pairs.rename(columns={"source": "target", "target": "source"})
    edges = pandas.concat([pairs.assign(kind="out"), back.assign(kind="in")])
    classifier = gread.GraphClassifier("gread-x", settings=FAST, edge_type="kind", directed=True)
    problem = problem_of(classifier.prepare(frames[0], "topic", edges=edges))
    assert not problem.has_directions
    directed = [one for one in portfolio() if one.directed]
    assert [problem.able(one) for one in directed] == [one.typed for one in directed]
    for one in directed:
        if one.typed:
            train(
                problem,
                Candidate(one.title, one.model, {**one.settings, "epochs": 2}, **flags(one)),
                problem.learned,
                None,
                epochs=2,
            )


def flags(one):
    return {"directed": one.directed, "typed": one.typed, "neighbours": one.neighbours}


@pytest.mark.parametrize("candidate", FEW[1:], ids=lambda one: one.title)
def test_predictions_depend_only_on_training_labels(typed, candidate):
    other = typed.data_.clone()
    held = problem_of(typed).learned[60:]
    other.y[held] = (other.y[held] + 1) % 3
    found = [
        train(
            Problem(data, problem_of(typed).learned, typed.task_),
            candidate,
            problem_of(typed).learned[:60],
            None,
            epochs=4,
        )
        for data in (typed.data_, other)
    ]
    assert np.array_equal(found[0].predictions, found[1].predictions)


@pytest.mark.slow
def test_edge_types_improve_the_validation_metric(frames):
    """Friends share a class and rivals do not."""
    titles = {
        "GREAD-X",
        "GREAD-X, typed",
        "MLP with neighbours' labels",
        "MLP with neighbours' labels, typed",
    }
    classifier = gread.GraphClassifier("auto", edge_type="kind")
    problem = problem_of(classifier.prepare(frames[0], "topic", edges=frames[1]))
    some = [one for one in portfolio() if one.title in titles]
    gains = {one.candidate.title: one.gain[0] for one in race(problem, some, seconds=8)}
    assert gains["GREAD-X, typed"] > gains["GREAD-X"] + 0.1
    assert gains["MLP with neighbours' labels, typed"] > gains["MLP with neighbours' labels"]


def test_folder_from_before_edge_types_is_loaded(data, tmp_path):
    classifier = gread.GraphClassifier("gread-x", settings=FAST).fit(data)
    folder = classifier.save(tmp_path / "model")
    about = json.loads((folder / "classifier.json").read_text())
    del about["edge_types"], about["parameters"]["edge_type"], about["settings"]["num_relations"]
    (folder / "classifier.json").write_text(json.dumps(about))
    old = gread.GraphClassifier.load(folder)
    assert np.array_equal(old.predict_proba(), classifier.predict_proba())
