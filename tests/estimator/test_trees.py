import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import gread
from gread.base.errors import InputError
from gread.estimator.candidates import TREES, Candidate
from gread.estimator.explanation import _influences
from gread.estimator.task import Classes, LabelSets, Numbers
from gread.estimator.trees import PATIENCE, Boosting, Trees

SETTINGS = {"lr": 0.1, "leaves": 5, "depth": 3}


@pytest.fixture(scope="module")
def x():
    return torch.from_numpy(np.random.default_rng(0).normal(size=(300, 4))).float()


def classes(x, count):
    quarter = 2 * (x[:, 0] > 0).long() + (x[:, 1] * x[:, 2] > 0).long()
    return quarter % count, Classes(tuple(range(count)), "accuracy")


def labels(x):
    return torch.stack([x[:, 0] > 0, x[:, 1] > 1], 1).float(), LabelSets(("a", "b"), "roc-auc")


def numbers(x):
    return x[:, 0].square() + x[:, 1], Numbers(("price",), "r2", centre=5.0, scale=2.0)


def boosting(x, y, task, held=None, **about):
    given = {"rounds": 20, "settings": SETTINGS} | about
    return Boosting(x, y, task, np.arange(200), held, **given)


def grown(*arguments, **about):
    found = boosting(*arguments, **about)
    found.run(lambda _: False)
    return found


@pytest.mark.parametrize("count", [2, 4])
def test_tree_probabilities_match_scikit_learn(x, count):
    found = grown(x, *classes(x, count))
    expected = found.learners[0].predict_proba(x.numpy())
    outputs = found.module()(x).double().softmax(1).numpy()
    assert outputs == pytest.approx(expected, abs=1e-6)


def test_tree_probabilities_of_each_label_match_scikit_learn(x):
    found = grown(x, *labels(x))
    outputs = found.module()(x).double().sigmoid().numpy()
    for place, learner in enumerate(found.learners):
        assert outputs[:, place] == pytest.approx(learner.predict_proba(x.numpy())[:, 1], abs=1e-6)


def test_tree_regression_predictions_match_scikit_learn(x):
    found = grown(x, *numbers(x))
    assert found.module()(x)[:, 0].numpy() == pytest.approx(
        found.learners[0].predict(x.numpy()), abs=1e-5
    )


def test_float32_rounding_keeps_values_on_their_side_of_a_threshold():
    """Thresholds lie between float32 values; rounding must not move a threshold past a value."""
    start = np.float32(1.0)
    values = np.array([start, np.nextafter(start, np.float32(2.0))], dtype=np.float32)
    x, y = torch.from_numpy(values).repeat(100).unsqueeze(1), torch.tensor([0, 1]).repeat(100)
    found = grown(x, y, Classes((0, 1), "accuracy"))
    assert torch.equal(found.module()(x).argmax(1), y)


@pytest.mark.parametrize("targets", [lambda x: classes(x, 4), labels, numbers])
def test_interruptions_do_not_change_the_trees(x, targets):
    y, task = targets(x)
    whole, often = (boosting(x, y, task, np.arange(200, 300), rounds=60) for _ in range(2))
    whole.run(lambda _: False)
    turns = 0
    while not often.done:
        often.run(lambda _: True)
        turns += 1
    assert turns > 3
    assert often.best == whole.best
    torch.testing.assert_close(often.module().state_dict(), whole.module().state_dict())


def test_rounds_with_the_lowest_held_out_loss_are_kept(x):
    y, task = torch.from_numpy(np.random.default_rng(1).integers(2, size=300)), TASK
    found = grown(x, y, task, np.arange(200, 300), rounds=600)
    assert found.done
    assert len(found.grown) - found.best >= PATIENCE
    assert len(found.grown) < 600

    def loss(rounds):
        outputs = found._trees(0, rounds)(x[200:])
        return torch.nn.functional.cross_entropy(outputs.double(), y[200:]).item()

    every = [loss(rounds) for rounds in range(1, len(found.grown) + 1)]
    assert found.lowest == pytest.approx(min(every), abs=1e-6)
    assert found.best == int(np.argmin(every)) + 1


TASK = Classes((0, 1), "accuracy")


def test_class_without_training_nodes_gets_near_zero_probability(x):
    y, _ = classes(x, 2)
    found = grown(x, y, Classes(("a", "b", "c"), "accuracy"))
    assert found.module()(x).softmax(1)[:, 2].max() < 1e-3


def test_constant_label_raises_arithmetic_error(x):
    y, task = labels(x)
    with pytest.raises(ArithmeticError, match="two classes"):
        grown(x, torch.ones_like(y), task)


def test_class_weights_raise_the_mean_probability_of_a_class(x):
    y, task = classes(x, 2)
    plain, weighted = (
        grown(x, y, task, class_weight=weight).module()(x).softmax(1)[:, 1].mean()
        for weight in (None, torch.tensor([1.0, 10.0]))
    )
    assert weighted > plain + 0.05


def folder_of_trees(tmp_path, monkeypatch):
    data = gread.load("csbm", num_nodes=100, homophily=0.9, degree=6)
    trees = Candidate("Trees", TREES, SETTINGS)
    near = Candidate("Trees, neighbours", TREES, SETTINGS, neighbours=True)
    monkeypatch.setattr("gread.estimator.automatic.portfolio", lambda: [trees, near])
    monkeypatch.setattr("gread.estimator.race.Contest.vary", lambda contest: None)
    monkeypatch.setattr("gread.estimator.automatic.SEEDS", 1)
    classifier = gread.GraphClassifier("auto", time=0.02).fit(data)
    classifier.save(tmp_path / "model")
    return data, classifier


@pytest.mark.slow
def test_loaded_trees_give_the_same_predictions(tmp_path, monkeypatch):
    data, classifier = folder_of_trees(tmp_path, monkeypatch)
    loaded = gread.GraphClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predictions(), classifier.predictions())
    other = data.clone()
    other.x = other.x + 0.1
    assert np.array_equal(loaded.predictions(other), classifier.predictions(other))
    assert {one.candidate.model for one in loaded.blend_.members} == {TREES}


@pytest.mark.slow
def test_out_of_range_tree_columns_are_rejected(tmp_path, monkeypatch):
    folder_of_trees(tmp_path, monkeypatch)
    file = tmp_path / "model" / "members" / "0.safetensors"
    tensors = load_file(file)
    tensors["column"] += 1000
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(InputError, match="column of trees must be places"):
        gread.GraphClassifier.load(tmp_path / "model")


@pytest.mark.slow
def test_trees_without_neighbour_features_are_exported(tmp_path, monkeypatch):
    data, classifier = folder_of_trees(tmp_path, monkeypatch)
    classifier.export(tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    x = torch.from_numpy(classifier.preprocessing_.transform(classifier.read(data).table()))
    found = program(x, data.edge_index).detach().numpy()
    assert found == pytest.approx(classifier.predictions(data), abs=1e-6)


@pytest.mark.parametrize(
    ("targets", "columns"),
    [(lambda x: classes(x, 2), {1, 2}), (labels, {0, 1}), (numbers, {0, 1})],
    ids=["classes", "labels", "numbers"],
)
def test_columns_that_determine_the_target_have_the_largest_influence(x, targets, columns):
    y, task = targets(x)
    trees = grown(x, y, task).module()
    decided = task.decided(task.predictions(trees(x), task.loss), None)[7]
    influence = _influences(trees, task, x, 7, decided)
    assert {*influence.topk(2).indices.tolist()} == columns
    assert influence.max() == 1
    assert set(trees.columns()) >= columns


@pytest.mark.slow
def test_explanation_of_trees_contains_features_but_no_edges(tmp_path, monkeypatch):
    _, classifier = folder_of_trees(tmp_path, monkeypatch)
    found = classifier.explain(7)
    assert found.model.endswith("the strongest trained model of the blend")
    assert found.features[0][1] == 1
    assert not found.edges
    assert found == classifier.explain(7)


def test_invalid_tree_sizes_are_rejected():
    with pytest.raises(InputError, match="leaves"):
        Trees(2, 3, 0, 4)
