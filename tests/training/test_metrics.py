"""Losses and metrics agree with PyTorch and scikit-learn on every path of training."""

import numpy as np
import pytest
import torch
from sklearn import metrics as oracle
from torch import nn
from torch.nn import functional

import gread
from gread.base.errors import InputError
from gread.training.losses import LOSSES
from gread.training.metrics import METRICS, Predictions, metric, metrics_of
from gread.training.population import fit_together


def against_others(score):
    """Mean over classes of a binary score; for two classes, the score of the rarer one."""

    def mean(y, p, rare=1):
        if y.ndim == 2:
            return np.mean([score(*pair) for pair in zip(y.T, p.T, strict=True)])
        classes = range(p.shape[1]) if p.shape[1] > 2 else [rare]
        return np.mean([score(y == c, p[:, c]) for c in classes])

    return mean


def log_loss(y, p):
    if y.ndim == 1:
        return oracle.log_loss(y, p, labels=range(p.shape[1]))
    return np.mean([oracle.log_loss(*pair, labels=[0, 1]) for pair in zip(y.T, p.T, strict=True)])


SKLEARN = {
    "accuracy": lambda y, p: oracle.accuracy_score(y, p.argmax(1)),
    "balanced-accuracy": lambda y, p: oracle.balanced_accuracy_score(y, p.argmax(1)),
    "macro-f1": lambda y, p: oracle.f1_score(
        y, p.argmax(1), average="macro", labels=np.unique(y), zero_division=0
    ),
    "roc-auc": against_others(oracle.roc_auc_score),
    "average-precision": against_others(oracle.average_precision_score),
    "nll": log_loss,
    "micro-f1": lambda y, p: oracle.f1_score(y, p >= 0.5, average="micro"),
}


def sets(n: int) -> torch.Tensor:
    """Three interleaved sets."""
    return torch.stack([torch.arange(n) % 3 == k for k in range(3)]).double()


def predictions(outputs: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> Predictions:
    return Predictions(outputs, y, weight, weight.sum(-1))


def test_every_metric_has_an_oracle():
    assert {*SKLEARN, "r2", "mae"} == set(METRICS)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", metrics_of("classes"))
def test_class_metrics_match_scikit_learn(name, classes):
    outputs = torch.randn(90, classes, dtype=torch.float64)
    outputs[::4] = outputs[0]  # ties
    y, weight = torch.randint(classes, (90,)), sets(90)
    if classes == 2:
        y[:60] = (torch.arange(60) % 4 == 0).long()  # class 1 is the rarer
    found = METRICS[name].of(predictions(outputs, y, weight))
    for value, chosen in zip(found.tolist(), weight.bool(), strict=True):
        probabilities = outputs[chosen].softmax(-1).numpy()
        assert value == pytest.approx(SKLEARN[name](y[chosen].numpy(), probabilities), abs=1e-12)


@pytest.mark.parametrize("name", ["roc-auc", "average-precision"])
def test_binary_ranking_metrics_score_the_rarer_class(name):
    outputs, y, weight = torch.randn(90, 2).double(), (torch.arange(90) % 7 > 0).long(), sets(90)
    found = METRICS[name].of(predictions(outputs, y, weight))
    for value, chosen in zip(found.tolist(), weight.bool(), strict=True):
        probabilities = outputs[chosen].softmax(-1).numpy()
        expected = SKLEARN[name](y[chosen].numpy(), probabilities, rare=0)
        assert value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", metrics_of("labels"))
def test_multi_label_metrics_match_scikit_learn(name):
    outputs, y, weight = torch.randn(90, 3).double(), torch.randint(2, (90, 3)), sets(90)
    found = METRICS[name].of(predictions(outputs, y.double(), weight))
    for value, chosen in zip(found.tolist(), weight.bool(), strict=True):
        given = y[chosen].numpy(), outputs[chosen].sigmoid().numpy()
        assert value == pytest.approx(SKLEARN[name](*given), abs=1e-12)


@pytest.mark.parametrize("width", [1, 3])
def test_mae_matches_scikit_learn(width):
    outputs, y, weight = torch.randn(60, width), torch.randn(60, width), sets(60).float()
    found = METRICS["mae"].of(predictions(outputs, y.squeeze(-1), weight))
    for value, chosen in zip(found.tolist(), weight.bool(), strict=True):
        given = y[chosen].numpy(), outputs[chosen].numpy()
        assert value == pytest.approx(oracle.mean_absolute_error(*given), abs=1e-5)


@pytest.mark.parametrize("width", [1, 3])
def test_r2_matches_scikit_learn(width):
    outputs, weight = torch.randn(60, width), sets(60).float()
    y = 1000 + outputs + torch.randn(60, width)
    found = METRICS["r2"].of(predictions(1000 + outputs, y.squeeze(-1), weight))
    for value, chosen in zip(found.tolist(), weight.bool(), strict=True):
        given = y[chosen].numpy(), (1000 + outputs)[chosen].numpy()
        expected = oracle.r2_score(*given, multioutput="variance_weighted")
        assert value == pytest.approx(expected, abs=1e-5)


TARGETS = {
    "classes": lambda n: torch.arange(n) % 3,
    "labels": lambda n: torch.randint(2, (n, 3)).double(),
    "numbers": lambda n: torch.randn(n, 3),
}


@pytest.mark.parametrize(
    ("name", "targets"), [(name, of) for name, entry in METRICS.items() for of in entry.targets]
)
def test_metrics_of_population_members_are_independent(name, targets):
    outputs, y = torch.randn(5, 30, 3, dtype=torch.float64), TARGETS[targets](30)
    weight = torch.stack([sets(30)[:, torch.randperm(30)] for _ in range(5)])
    together = METRICS[name].of(predictions(outputs, y, weight))
    for member in range(5):
        alone = METRICS[name].of(predictions(outputs[member], y, weight[member]))
        torch.testing.assert_close(together[member], alone)


def test_each_population_member_scores_its_own_rarer_class():
    y = torch.arange(40) % 2
    outputs = torch.randn(2, 40, 2, dtype=torch.float64)
    rarer = torch.stack([(torch.arange(40) % 8 == k) | (y != k) for k in (0, 1)])
    weight = rarer.unsqueeze(1).expand(-1, 3, -1).double()
    together = METRICS["average-precision"].of(predictions(outputs, y, weight))
    for member in range(2):
        chosen = rarer[member]
        probabilities = outputs[member][chosen].softmax(-1).numpy()
        expected = SKLEARN["average-precision"](y[chosen].numpy(), probabilities, rare=member)
        assert together[member].tolist() == pytest.approx([expected] * 3, abs=1e-12)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_roc_auc_distinguishes_probabilities_near_one(width):
    y, weight = torch.tensor([0, 0, 1, 1]), torch.ones(1, 4)
    outputs = torch.zeros(4, width)
    outputs[:, -1 if width == 1 else 1] = torch.tensor([20.0, 21.0, 24.0, 26.0])
    if width == 1:
        y = y.unsqueeze(1).double()
    if width == 3:
        outputs[:, 2] = -60.0
    assert METRICS["roc-auc"].of(predictions(outputs, y, weight)).item() == 1


def test_r2_is_exact_for_targets_far_from_zero():
    error, weight = torch.randn(60, 1).double(), sets(60)
    y = 1e9 + torch.randn(60).double()
    found = METRICS["r2"].of(predictions(y.unsqueeze(1) + error, y, weight))
    for value, chosen in zip(found.tolist(), weight.bool(), strict=True):
        given = y[chosen].numpy(), (y.unsqueeze(1) + error)[chosen].numpy()
        assert value == pytest.approx(oracle.r2_score(*given), abs=1e-6)


def test_one_output_is_the_log_odds_of_class_one():
    log_odds = torch.randn(30, 1)
    scores = LOSSES["binary"].scores(log_odds)
    torch.testing.assert_close(scores.softmax(-1)[:, 1:], log_odds.sigmoid())
    assert LOSSES["cross-entropy"].scores(log_odds) is log_odds  # for a single class


ORACLES = {
    "cross-entropy": (functional.cross_entropy, 3),
    "binary": (lambda o, y: functional.binary_cross_entropy_with_logits(o[:, 0], y.float()), 1),
    "squared-error": (lambda o, y: functional.mse_loss(o[:, 0], y.float()), 1),
    "multi-label": (functional.binary_cross_entropy_with_logits, 3),
}


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_matches_pytorch(name):
    mean, width = ORACLES[name]
    outputs, y = torch.randn(20, width), torch.arange(20) % max(width, 2)
    if LOSSES[name].targets == "labels":
        y = torch.randint(2, (20, width)).float()
    expected = mean(outputs, y)
    loss = LOSSES[name]
    torch.testing.assert_close(loss.sum(outputs, y, None) / 20, expected)
    torch.testing.assert_close(loss.sum(outputs, y, torch.ones(20)) / 20, expected)
    half = torch.arange(20) < 10
    for weight in (half.float(), half.float().expand(4, 20)):
        summed = loss.sum(outputs.expand(*weight.shape[:-1], 20, width), y, weight)
        torch.testing.assert_close(summed / 10, mean(outputs[half], y[half]).expand_as(summed))


def graph(loss: str, nodes: int = 60):
    data = gread.csbm(nodes, homophily=0.9, degree=6, mean=2.0, seed=1)
    if LOSSES[loss].targets == "numbers":
        data.y = data.x[:, 0] + 0.1 * torch.randn(nodes)
    if LOSSES[loss].targets == "labels":
        data.y = torch.stack([data.y.float(), (data.x[:, 0] > 0).float()], 1)
    return data


def model(loss: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return gread.GREAD(2, 8, LOSSES[loss].outputs(2), input_dropout=0.0)


PAIRS = [
    (loss, name)
    for loss, entry in LOSSES.items()
    for name, found in METRICS.items()
    if entry.targets in found.targets
]


@pytest.mark.parametrize(("loss", "name"), PAIRS)
def test_metric_selects_the_epoch_in_single_and_population_training(loss, name):
    data = graph(loss)
    config = gread.TrainConfig(epochs=8, lr=0.05, loss=loss, metric=name)
    alone = gread.fit(model(loss), data, config)
    assert alone.history[-1].loss < alone.history[0].loss
    generators = [torch.Generator(), torch.Generator()]
    together = fit_together(
        [model(loss), model(loss, 1)], data, [config] * 2, splits=(0, 0), generators=generators
    )
    choose = max if METRICS[name].higher_is_better else min
    for fit in (alone, *together):
        assert fit.best.val == choose(epoch.val for epoch in fit.history)
    for one, same in zip(alone.history, together[0].history, strict=True):
        assert vars(same) == pytest.approx(vars(one), abs=2e-4)


@pytest.mark.parametrize(("loss", "name"), PAIRS)
def test_parts_with_a_full_halo_match_training_on_the_whole_graph(loss, name):
    data = graph(loss)
    whole = gread.TrainConfig(epochs=2, loss=loss, metric=name)
    parts = gread.TrainConfig(epochs=2, loss=loss, metric=name, parts=3, halo=30)
    first, second = (gread.fit(model(loss), data, config) for config in (whole, parts))
    for one, same in zip(first.history, second.history, strict=True):
        assert vars(same) == pytest.approx(vars(one), abs=1e-5)


ESTIMATES = {
    "classes": lambda scores: scores.softmax(-1),
    "labels": lambda scores: scores.sigmoid(),
    "numbers": lambda scores: scores[:, 0],
}
NUMBERS = {"r2": oracle.r2_score, "mae": oracle.mean_absolute_error}


def by_scikit_learn(loss: str, name: str, network: nn.Module, data) -> list[float]:
    """The metric on the three sets by scikit-learn, from outputs in double precision."""
    with torch.no_grad():
        outputs = network.eval()(data.x, data.edge_index).double()
    found = ESTIMATES[LOSSES[loss].targets](LOSSES[loss].scores(outputs))
    rare = int((data.y == 1).sum() <= (data.y == 0).sum())
    about = {"rare": rare} if name in ("roc-auc", "average-precision") else {}
    return [
        (SKLEARN | NUMBERS)[name](data.y[mask[:, 0]].numpy(), found[mask[:, 0]].numpy(), **about)
        for mask in (data.train_mask, data.val_mask, data.test_mask)
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("loss", "name"), PAIRS)
def test_metrics_of_a_half_precision_model_match_scikit_learn(loss, name, dtype):
    data, network = graph(loss, 700), model(loss).to(dtype)
    data.x = data.x.to(dtype)
    best = gread.fit(network, data, gread.TrainConfig(epochs=2, loss=loss, metric=name)).best
    found = [best.train, best.val, best.test]
    assert found == pytest.approx(by_scikit_learn(loss, name, network, data), abs=1e-6)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("loss", ["cross-entropy", "binary"])
@pytest.mark.parametrize("name", metrics_of("classes"))
def test_class_weights_change_the_loss_and_not_the_metrics(loss, name, parts):
    data, network, weight = graph(loss), model(loss), torch.tensor([1.0, 5.0])
    config = gread.TrainConfig(epochs=3, lr=0.05, loss=loss, metric=name, parts=parts, halo=30)
    best = gread.fit(network, data, config, class_weight=weight).best
    found = [best.train, best.val, best.test]
    assert found == pytest.approx(by_scikit_learn(loss, name, network, data), abs=1e-5)
    held = data.val_mask[:, 0]
    with torch.no_grad():
        scores = LOSSES[loss].scores(network(data.x, data.edge_index))[held]
    loss_of_held = functional.cross_entropy(scores, data.y[held], weight)
    assert best.val_loss == pytest.approx(loss_of_held.item(), abs=1e-5)


def test_metric_function_can_be_registered_and_used():
    @metric("kappa")
    def kappa(p: Predictions) -> torch.Tensor:
        shares = p.confusion / p.confusion.sum((-2, -1), keepdim=True)
        agreed = shares.diagonal(dim1=-2, dim2=-1).sum(-1)
        chance = (shares.sum(-1) * shares.sum(-2)).sum(-1)
        return (agreed - chance) / (1 - chance)

    try:
        outputs, y = torch.randn(40, 3, dtype=torch.float64), torch.randint(3, (40,))
        found = METRICS["kappa"].of(predictions(outputs, y, torch.ones(1, 40).double()))
        expected = oracle.cohen_kappa_score(y.numpy(), outputs.argmax(1).numpy())
        assert found.item() == pytest.approx(expected)
        config = gread.TrainConfig(epochs=3, metric="kappa")
        assert gread.fit(model("cross-entropy"), graph("cross-entropy"), config).best.val <= 1
    finally:
        del METRICS._entries["kappa"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"metric": "acuracy"}, "unknown metric 'acuracy', did you mean 'accuracy'"),
        ({"loss": "hinge"}, "unknown loss 'hinge'; choose from: cross-entropy"),
        ({"metric": "r2"}, "metric must be one of accuracy, .* with cross-entropy, got 'r2'"),
        ({"loss": "squared-error"}, "y must be a floating-point tensor"),
        ({"loss": "binary"}, "the loss binary needs a model with one output, got 2"),
    ],
)
def test_unknown_or_incompatible_losses_and_metrics_raise_input_errors(options, sentence):
    with pytest.raises(InputError, match=sentence):
        gread.fit(model("cross-entropy"), graph("cross-entropy"), gread.TrainConfig(**options))


@pytest.mark.parametrize("name", metrics_of("classes"))
@pytest.mark.parametrize("class_weight", [None, torch.tensor([1.0, 2.0, 1.0])])
def test_classes_of_nodes_outside_all_sets_may_be_any_number(name, class_weight):
    data, found = graph("cross-entropy"), []
    nodes = torch.arange(3)
    for mask in (data.train_mask, data.val_mask, data.test_mask):
        mask[nodes] = False
    for unknown in (-1, 99):
        data.y[nodes] = unknown
        torch.manual_seed(0)
        config = gread.TrainConfig(epochs=2, metric=name)
        network = gread.GREADX(data.num_features, 4, 3)
        found.append(gread.fit(network, data, config, class_weight=class_weight))
    assert found[0].history == found[1].history


def test_roc_auc_of_a_single_class_set_raises_an_input_error():
    data = graph("cross-entropy")
    data.y[data.val_mask[:, 0]] = 1
    with pytest.raises(InputError, match="the metric must be defined on the nodes of every set"):
        gread.fit(model("cross-entropy"), data, gread.TrainConfig(metric="roc-auc"))
