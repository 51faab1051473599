import copy
import math
import sys
import time
from functools import partial

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import gread
from gread.base.errors import InputError
from gread.training import loop
from gread.training.fit import masks_of
from gread.training.loop import Best, Epochs, Piece, Progress, several
from gread.training.optimizer import FusedAdam, adam

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Scripted(nn.Module):
    """Model that predicts the nodes of a script correctly, epoch by epoch."""

    def __init__(self, right: list[list[int]]):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.register_buffer("epoch", torch.tensor(-1))
        self.right = right

    def forward(self, x, edge_index, edge_weight=None):
        if self.training:
            self.epoch += 1
        logits = torch.stack([self.bias.expand(6), self.bias.expand(6) - 1], dim=1)
        for node in self.right[int(self.epoch)]:
            logits = logits.index_add(0, torch.tensor([node]), torch.tensor([[-5.0, 5.0]]))
        return logits


@pytest.fixture
def six() -> Data:
    parts = torch.tensor([0, 0, 1, 1, 2, 2])
    return Data(
        x=torch.zeros(6, 1),
        edge_index=torch.empty(2, 0, dtype=torch.int64),
        y=torch.ones(6, dtype=torch.int64),
        train_mask=parts == 0,
        val_mask=parts == 1,
        test_mask=parts == 2,
    )


def test_the_best_validation_epoch_is_reported_the_earliest_on_ties(six):
    # Epochs 1 and 2 tie on validation; better test results of epochs 2 and 3 have no effect.
    model = Scripted([[0], [2, 4], [3, 4, 5], [4, 5]])
    fit = gread.fit(model, six, gread.TrainConfig(epochs=4))
    assert fit.best.number == 1
    assert (fit.best.train, fit.best.val, fit.best.test) == (0.0, 0.5, 0.5)
    assert [epoch.test for epoch in fit.history] == [0.0, 0.5, 1.0, 1.0]


def test_the_model_is_left_with_the_best_parameters(six):
    model = Scripted([[0], [2, 3], [0], [0]])
    gread.fit(model, six, gread.TrainConfig(epochs=4))
    assert model.epoch == 1


def test_patience_stops_when_validation_no_longer_improves(six):
    model = Scripted([[2], [0], [0], [2, 3], [0], [0], [0], [0]])
    fit = gread.fit(model, six, gread.TrainConfig(epochs=8, patience=3))
    assert fit.best.number == 3
    assert len(fit.history) == 7


def test_one_step_matches_adam_with_l2_weight_decay(six):
    torch.manual_seed(0)
    ours, theirs = nn.Linear(1, 2), nn.Linear(1, 2)
    theirs.load_state_dict(ours.state_dict())

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = ours

        def forward(self, x, edge_index, edge_weight=None):
            return self.linear(x)

    six.x = torch.randn(6, 1)
    fit = gread.fit(Wrapped(), six, gread.TrainConfig(epochs=1, lr=0.1, weight_decay=0.3))
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.1, weight_decay=0.3)
    logits = theirs(six.x)[six.train_mask]
    loss = -logits.log_softmax(1)[:, 1].mean()  # Eq. (15), all labels are 1
    loss.backward()
    optimizer.step()
    assert fit.history[0].loss == pytest.approx(loss.item())
    val_loss = -theirs(six.x)[six.val_mask].log_softmax(1)[:, 1].mean()  # after the step
    assert fit.history[0].val_loss == pytest.approx(val_loss.item())
    torch.testing.assert_close(ours.weight, theirs.weight)


class Phases(nn.Module):
    """Model with a row of complex numbers for every node, selected by its feature."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.polar(torch.ones(6, 2), torch.ones(6, 2)))

    def forward(self, x, edge_index, edge_weight=None):
        return self.table[x[:, 0].long()].real


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_integer_features_and_complex_parameters_can_be_trained(six, dtype):
    six.x, six.y = torch.arange(6).view(6, 1).to(dtype), torch.tensor([0, 1] * 3)
    history = gread.fit(Phases(), six, gread.TrainConfig(epochs=20)).history
    assert history[-1].loss < history[0].loss


class Diverging(nn.Module):
    """Model whose logits are NaN from the given epoch on."""

    def __init__(self, at: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.epoch, self.at = -1, at

    def forward(self, x, edge_index, edge_weight=None):
        self.epoch += self.training
        broken = torch.nan if self.epoch >= self.at else 1.0
        return broken * self.weight.expand(6, 2)


def test_diverging_training_stops_and_reports_the_epoch(six):
    fit = gread.fit(Diverging(at=2), six, gread.TrainConfig(epochs=9))
    assert len(fit.history) == 2
    assert fit.diverged == "epoch 2: the loss is not finite: choose a smaller lr"
    assert gread.fit(Diverging(at=99), six, gread.TrainConfig(epochs=3)).diverged == ""
    with pytest.raises(ArithmeticError, match="the loss is not finite"):
        gread.fit(Diverging(at=0), six, gread.TrainConfig(epochs=3))


def test_on_epoch_callback_receives_every_epoch(graph):
    seen = []
    model = gread.GREAD(3, 4, 2).double()
    fit = gread.fit(model, graph, gread.TrainConfig(epochs=3), split=1, on_epoch=seen.append)
    assert seen == list(fit.history)
    assert [epoch.number for epoch in seen] == [0, 1, 2]


class Slow(nn.Module):
    """Model that takes at least a millisecond per call."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x, edge_index, edge_weight=None):
        if x.is_cuda:
            torch.cuda._sleep(5_000_000)  # cycles: at 5 GHz, beyond any GPU, a millisecond
        else:
            time.sleep(0.001)
        return self.linear(x)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_fit_records_the_seconds_of_every_epoch(device):
    """On a GPU, many epochs pass between two synchronizations."""
    data = gread.csbm(60).to(device)
    began = time.perf_counter()
    fit = gread.fit(Slow().to(device), data, gread.TrainConfig(epochs=50))
    assert sum(fit.seconds) <= time.perf_counter() - began
    assert len(fit.seconds) == 50
    assert min(fit.seconds) >= 0.002  # a step and an evaluation


def test_easy_graph_reaches_95_percent_test_accuracy():
    data = gread.csbm(200, homophily=0.9, degree=10, mean=2.0)
    fit = gread.fit(gread.GREAD(2, 8, 2), data, gread.TrainConfig(epochs=50))
    assert fit.best.test > 0.95


@pytest.mark.parametrize(
    ("change", "split", "sentence"),
    [
        ({"y": None}, 0, "data must have y, got"),
        ({"val_mask": None}, 0, "data must have val_mask, got"),
        ({"y": torch.zeros(6)}, 0, r"y must be an int64 tensor \[6\], got torch.float32 \[6\]"),
        ({"y": torch.full((6,), 7)}, 0, r"y must name classes 0 to 1, .* got class 7"),
        ({"train_mask": torch.ones(5, 2)}, 0, r"train_mask must be \[6, splits\], got \[5, 2\]"),
        ({}, 3, "split must be below 1, the number of splits, got 3"),
        ({}, -1, "split must be a whole number of at least 0, got -1"),
        ({"val_mask": torch.zeros(6)}, 0, "val_mask must select a node, got none in split 0"),
    ],
)
def test_invalid_data_raises_an_input_error(six, change, split, sentence):
    for name, value in change.items():
        if value is None:
            del six[name]
        else:
            six[name] = value
    with pytest.raises(InputError, match=sentence):
        gread.fit(Scripted([[0]] * 9), six, gread.TrainConfig(epochs=1), split=split)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"lr": 0.0}, "lr must be a positive number, got 0.0"),
        ({"weight_decay": -1.0}, "weight_decay must be a number, zero or above, got -1.0"),
        ({"patience": 0}, "patience must be a whole number of at least 1, got 0"),
    ],
)
def test_invalid_train_config_raises_an_input_error(options, sentence):
    with pytest.raises(InputError, match=sentence):
        gread.TrainConfig(**options)


class BreaksWhenEvaluated(nn.Module):
    """Model with a finite loss whose logits after the update are not finite."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x, edge_index, edge_weight=None):
        logits = self.linear(x)
        broken = not self.training and self.linear.weight.grad is not None
        return logits * torch.nan if broken else logits


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (torch.ones(1), r"a tensor \[classes\] of at least 2 numbers, got \[1\]"),
        ([1.0, 1.0], r"a tensor \[classes\] of at least 2 numbers, got \[1.0, 1.0\]"),
        (torch.tensor([-1.0, 1.0]), r"finite and not negative, got \[-1.0, 1.0\]"),
    ],
)
def test_invalid_class_weights_raise_an_input_error(six, weight, sentence):
    with pytest.raises(InputError, match=f"class_weight must be {sentence}"):
        gread.fit(Scripted([[0]]), six, class_weight=weight)


def test_class_weights_of_numbers_raise_an_input_error(six):
    six.y, config = torch.randn(6), gread.TrainConfig(loss="squared-error")
    with pytest.raises(InputError, match="class_weight must be None for targets that are not"):
        gread.fit(gread.GREADX(1, 2, 1), six, config, class_weight=torch.ones(1))


def test_model_with_weights_for_each_node_rejects_parts_of_any_size(six):
    model = gread.GREADX(1, 2, 2, embedding=True, num_nodes=6)
    with pytest.raises(InputError, match="parts must be 1 for a model with weights for each node"):
        gread.fit(model, six, gread.TrainConfig(parts=2, halo=6))


def test_nan_logits_in_evaluation_raise_an_arithmetic_error():
    with pytest.raises(ArithmeticError, match="not finite"):
        gread.fit(BreaksWhenEvaluated(), gread.load("csbm", num_nodes=60))


@pytest.mark.parametrize("patience", [None, 2])
def test_best_selects_the_same_state_as_progress(patience):
    """The numbers include ties and values that are not finite."""
    random = torch.Generator().manual_seed(0)
    configs = [gread.TrainConfig(epochs=1 + k % 12, patience=patience) for k in range(200)]
    numbers = torch.randint(4, (12, 200, 5), generator=random, dtype=torch.float64) / 3
    numbers[torch.rand(12, 200, 5, generator=random) < 0.01] = torch.nan
    kept, state = torch.zeros(200, 3), torch.zeros(200, 3)
    best = Best([kept], [state], configs, torch.device("cpu"))
    progress = [Progress(config) for config in configs]
    for epoch, found in enumerate(numbers, start=1):
        state.fill_(epoch)
        best.look(found)
        for member, own in zip(progress, found.tolist(), strict=True):
            if not member.done:
                if all(map(math.isfinite, own)):
                    member.add(*own)
                else:
                    member.diverged = "yes"
    expected = [0 if member.best is None else 1 + member.best.number for member in progress]
    assert kept.tolist() == [[number] * 3 for number in expected]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_training_with_the_fused_loss_kernel_matches_pytorch(parts, weighted, monkeypatch):
    data = gread.load("csbm", num_nodes=60)
    weight = torch.tensor([1.0, 3.0]) if weighted else None
    found = []
    for kinds in ((), ("cpu",)):
        for module in ("losses", "loop"):
            monkeypatch.setattr(sys.modules[f"gread.training.{module}"], "IN_ONE_PASS", kinds)
        torch.manual_seed(0)
        model = gread.GREAD(data.num_features, 8, 2)
        config = gread.TrainConfig(epochs=5, parts=parts)
        fit = gread.fit(model, data, config, class_weight=weight)
        found.append([list(vars(epoch).values()) for epoch in fit.history])
    torch.testing.assert_close(*map(torch.tensor, found))


@needs_gpu
@pytest.mark.parametrize("patience", [None, 3])
def test_batched_epochs_match_sequential_epochs(patience, monkeypatch):
    data = gread.load("csbm", num_nodes=60).to("cuda")
    found = []
    for at_once in (1, 20):
        monkeypatch.setattr(sys.modules["gread.training.fit"], "EPOCHS_AT_ONCE", at_once)
        torch.manual_seed(0)
        model = gread.GREAD(data.num_features, 8, 2, dropout=0.3).to("cuda")
        fit = gread.fit(model, data, gread.TrainConfig(epochs=50, patience=patience))
        found.append((fit, [parameter.tolist() for parameter in model.parameters()]))
    assert found[0] == found[1]


@pytest.mark.parametrize("number", [1, 4])
def test_steps_learned_during_the_previous_evaluation_give_the_same_epochs(number, monkeypatch):
    monkeypatch.setattr(loop, "values_can_be_read", lambda: False)
    data, config = gread.load("csbm", num_nodes=60), gread.TrainConfig()
    weight = torch.stack(masks_of(data, 0)).float()
    found = []
    for ahead in (False, True):
        torch.manual_seed(0)
        model = gread.GREAD(data.num_features, 8, 2, dropout=0.3)
        piece = Piece(partial(model, data.x, data.edge_index), data.y, weight)
        epochs = Epochs(model, [piece], config, adam(model, config))
        epochs.ahead = ahead
        found.append((several(epochs, number), [p.tolist() for p in model.parameters()]))
        assert epochs.learned is ahead
        assert not model.training
    assert found[0] == found[1]


def test_no_step_is_learned_during_the_evaluation_of_a_model_that_writes_buffers(six, monkeypatch):
    monkeypatch.setattr(loop, "values_can_be_read", lambda: False)
    model, config = Scripted([[0, 2], [2, 3], [1, 4]]), gread.TrainConfig()
    weight = torch.stack([six.train_mask, six.val_mask, six.test_mask]).float()
    piece = Piece(partial(model, six.x, six.edge_index), six.y, weight)
    epochs = Epochs(model, [piece], config, adam(model, config))
    epochs.ahead = True
    assert [numbers[2] for numbers in several(epochs, 3)[0]] == [0.5, 1.0, 0.0]
    assert not epochs.learned


def test_fused_adam_steps_equal_those_of_pytorch_adam():
    start, grads = torch.randn(3, 5), torch.randn(4, 3, 5)
    ours, theirs = (nn.Parameter(start.clone()) for _ in range(2))
    groups = [[{"params": [p], "weight_decay": 0.1}] for p in (ours, theirs)]
    options = {"lr": 0.05, "weight_decay": 0.0, "fused": True}
    mine, other = FusedAdam(groups[0], **options), torch.optim.Adam(groups[1], **options)
    for grad in grads:
        ours.grad = theirs.grad = grad
        mine.step()
        other.step()
    assert torch.equal(ours, theirs)
    other.load_state_dict(copy.deepcopy(mine.state_dict()))  # state dicts have the same format
    ours.grad = theirs.grad = grads[0]
    mine.step()
    other.step()
    assert torch.equal(ours, theirs)
