"""Splits by time: the latest nodes are the test set, and training uses only earlier edges."""

import numpy as np
import pandas
import pytest
import torch

import gread
from gread.base.errors import InputError
from gread.estimator.candidates import Candidate
from gread.estimator.problem import Problem
from gread.tables.column import column
from gread.tables.labels import read_times, split_by_time
from gread.tables.table import Table

FAST = {"epochs": 6, "hidden_channels": 8}
NODES = 120


@pytest.fixture(scope="module")
def frames():
    """Tables of nodes with times from 2010 on, and of edges with the later time of both ends."""
    random = np.random.default_rng(0)
    y, year = random.integers(3, size=NODES), 2010 + np.sort(random.integers(10, size=NODES))
    pairs = random.integers(NODES, size=(2, 500))
    pairs = pairs[:, pairs[0] != pairs[1]]
    nodes = pandas.DataFrame({"id": range(NODES), "topic": [f"t{k}" for k in y], "when": year})
    nodes["a"] = (random.normal(size=NODES) + y).round(3)
    nodes.loc[::12, "topic"] = None
    edges = pandas.DataFrame({"source": pairs[0], "target": pairs[1]})
    edges["when"] = np.maximum(year[pairs[0]], year[pairs[1]])
    edges["kind"] = random.choice(["x", "y"], size=len(edges))
    return nodes, edges


def fitted(nodes, edges, model="gread-x", **options):
    settings = None if model == "auto" else FAST
    classifier = gread.GraphClassifier(model, settings=settings, time_column="when", **options)
    return classifier.prepare(nodes, "topic", edges=edges)


@pytest.fixture(scope="module")
def prepared(frames):
    return fitted(*frames)


def test_time_split_orders_training_validation_and_test_nodes(prepared, frames):
    when = frames[0]["when"].to_numpy()
    masks = [prepared.data_[f"{part}_mask"].numpy() for part in ("train", "val", "test")]
    ends = [(when[mask].min(), when[mask].max()) for mask in masks]
    assert ends[0][1] < ends[1][0] <= ends[1][1] < ends[2][0]
    assert (ends[1][0], ends[2][0]) == prepared.cuts_
    shares = np.array([mask.sum() for mask in masks]) / np.sum(masks)
    np.testing.assert_allclose(shares, [0.6, 0.2, 0.2], atol=0.08)
    (told,) = [note for note in prepared.diagnosis_.notes if note.startswith("Split by when")]
    assert f"nodes before {ends[2][0]} validate" in told
    hidden = (frames[1]["when"] >= ends[2][0]).sum()
    assert told.endswith(f"Training uses no edge from {ends[2][0]} on ({hidden} edges).")
    assert "when" not in prepared.preprocessing_.encoders


@pytest.mark.parametrize("features", ["auto", ""], ids=["features", "degrees"])
@pytest.mark.parametrize("edge_type", [None, "kind"])
def test_edges_of_the_test_period_do_not_affect_training(prepared, frames, features, edge_type):
    """Changing targets and types of newer edges does not change the trained network."""
    nodes, edges = frames
    other = edges.copy()
    new = other["when"] >= prepared.cuts_[1]
    assert new.any()
    other.loc[new, "target"] = (other.loc[new, "source"] + 1) % NODES
    other.loc[new, "kind"] = "y"
    options = {"features": features, "edge_type": edge_type}
    one, two = (fitted(nodes, some, **options).train() for some in (edges, other))
    for a, b in zip(one.module_.parameters(), two.module_.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not np.array_equal(one.predict_proba(), two.predict_proba())  # all edges are used here
    assert one.diagnosis_.edges == two.diagnosis_.edges


def test_labels_of_test_nodes_do_not_affect_training(prepared, frames):
    nodes, edges = frames
    other = nodes.copy()
    test = prepared.data_.test_mask.numpy()
    other.loc[test, "topic"] = np.roll(other.loc[test, "topic"], 1)
    one, two = (fitted(some, edges).train() for some in (nodes, other))
    for a, b in zip(one.module_.parameters(), two.module_.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_race_validates_on_the_later_nodes(frames, monkeypatch):
    seen = []

    def look(problem, seconds, on_score):
        seen.append(problem)
        raise TimeoutError

    monkeypatch.setattr("gread.estimator.classifier.fit_blend", look)
    classifier = fitted(*frames, model="auto")
    with pytest.raises(TimeoutError):
        classifier.train()
    ((_, held),) = seen[0].folds
    assert list(held) == classifier.data_.val_mask.nonzero().squeeze(1).tolist()
    assert seen[0].data.edge_index.size(1) < classifier.data_.edge_index.size(1)
    placed = Candidate("", "mlp", positions=True)
    assert not seen[0].able(placed)  # the later graph has other eigenvectors
    assert Problem(seen[0].data, seen[0].learned, seen[0].task).able(placed)


def test_edges_without_times_are_all_used(frames):
    found = fitted(frames[0], frames[1].drop(columns="when"))
    assert found.seen_ is found.data_
    assert any("Edges have no times" in note for note in found.diagnosis_.notes)


def test_dates_and_numbers_split_alike(prepared, frames):
    nodes, edges = (one.assign(when=[f"{year}-01-01" for year in one["when"]]) for one in frames)
    found = fitted(nodes, edges)
    for name in ("train_mask", "val_mask", "test_mask"):
        assert torch.equal(found.data_[name], prepared.data_[name])
    assert torch.equal(found.seen_.edge_index, prepared.seen_.edge_index)
    cut = f"{int(prepared.cuts_[1])}-01-01"
    assert any(f"Training uses no edge from {cut} on" in note for note in found.diagnosis_.notes)


def test_loaded_classifier_keeps_time_column_and_predictions(frames, tmp_path):
    classifier = fitted(*frames).train()
    again = gread.GraphClassifier.load(classifier.save(tmp_path / "model"))
    assert again.time_column == "when"
    assert np.array_equal(again.predict_proba(), classifier.predict_proba())
    with pytest.raises(InputError, match="also holds the edges that were hidden from the training"):
        again.like("mlp", FAST)


def test_loaded_classifier_without_edge_times_trains_on_the_same_data(frames, tmp_path):
    nodes, edges = frames
    one = fitted(nodes, edges.drop(columns="when"), model="gcn").train()
    two = gread.GraphClassifier.load(one.save(tmp_path / "model"))
    found = (some.like("mlp", FAST).predict_proba() for some in (one, two))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda n, e: (n.assign(when="soon"), e), "must hold numbers or dates, got text"),
        (lambda n, e: (n.assign(when=2010), e), "three different times or more .*, got 1"),
        (lambda n, e: (n.drop(columns="when"), e), "has no column 'when'"),
        (
            lambda n, e: (n.assign(when=n["when"].astype(float).mask(n["id"] == 1)), e),
            "time column 'when' of nodes must hold the time of every labelled node, got none in "
            "row 2",
        ),
        (
            lambda n, e: (n, e.assign(when=e["when"].astype(float).mask(e.index == 4))),
            "time column 'when' of edges must hold the time of every edge, got none in row 5",
        ),
        (
            lambda n, e: (n, e.assign(when="2020-01-01")),
            "and that of the edges must be alike, got numbers and dates",
        ),
    ],
)
def test_invalid_times_raise_input_error(frames, change, sentence):
    with pytest.raises(InputError, match=sentence):
        fitted(*change(*frames))


def test_time_column_with_a_split_or_graph_raises_input_error(frames, data):
    classifier = gread.GraphClassifier("gcn", settings=FAST, time_column="when")
    with pytest.raises(InputError, match="time_column must be left out if a split or the graph"):
        classifier.prepare(frames[0], "topic", edges=frames[1], split="topic")
    with pytest.raises(InputError, match="time_column must be left out if a split or the graph"):
        classifier.set_params(graph=data).prepare(np.arange(60), data.y.numpy()[:60])


@pytest.mark.parametrize("different", [3, 4, 50, 1000])
def test_time_split_parts_are_nonempty_and_disjoint_in_time(different):
    random = np.random.default_rng(different)
    times = np.concatenate([np.arange(different), random.integers(different, size=300)]).astype(
        float
    )
    known = random.random(len(times)) < 0.7
    known[:3] = True
    parts, cuts = split_by_time(times, known, (0.6, 0.2, 0.2))
    assert (parts[~known] == -1).all()
    assert set(parts[known]) == {0, 1, 2}
    ends = [(times[parts == part].min(), times[parts == part].max()) for part in range(3)]
    assert ends[0][1] < cuts[0] == ends[1][0] <= ends[1][1] < cuts[1] == ends[2][0]


def test_read_times_ignores_the_time_of_day():
    table = Table("t", {"when": column(["2020-01-02 10:00", "2020-01-02", None])})
    found = read_times(table, "when")
    assert found.values[0] == found.values[1]
    assert found.missing.tolist() == [False, False, True]
    assert found.text(found.values[0]) == "2020-01-02"


def test_a_model_trained_on_prepared_data_has_its_times(prepared):
    assert prepared.like("mlp", {"epochs": 1}).cuts_ == prepared.cuts_
