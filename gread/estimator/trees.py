"""Gradient-boosted trees, grown by scikit-learn, stored and applied as tensors.

A model folder holds them like any network, without objects of scikit-learn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.estimator.scores import Figures
from gread.estimator.task import Task

BLOCK = 16
"""Number of trees that are applied at a time."""

MOST, PAUSE = 32, 0.5
"""Most rounds between two checks of the time, and their seconds; the first turn has one round."""

PATIENCE = 30
"""Rounds without a lower loss on held nodes after which the training ends."""

NEVER = -15.0
"""Output of a class without nodes to learn from."""

SERIAL = 2**18
"""Number of feature values below which one thread grows the trees: several are hardly faster, and
on a busy machine they wait for each other."""


Arrays = Mapping[str, NDArray[Any]]
"""A tree: `Trees` has a tensor for each of these names."""


class Trees(nn.Module):
    """Sum of leaf values: the features of a node reach one leaf in each tree.

    Args:
        outputs: Number k of outputs.
        trees: Number T of trees.
        leaves: Largest number of leaves of a tree.
        depth: Largest number of decisions before a leaf.
    """

    start: Tensor
    output: Tensor
    column: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    value: Tensor

    def __init__(self, outputs: int, trees: int, leaves: int, depth: int):
        super().__init__()
        for name, count in (("trees", trees), ("leaves", leaves), ("depth", depth)):
            check_count(name, count)
        size = trees, 2 * leaves - 1
        self.depth = depth
        self.register_buffer("start", torch.zeros(outputs))
        self.register_buffer("output", torch.zeros(trees, dtype=torch.int32))
        for name in ("column", "left", "right"):
            self.register_buffer(name, torch.zeros(size, dtype=torch.int32))
        for name in ("threshold", "value"):
            self.register_buffer(name, torch.zeros(size))

    def forward(
        self, x: Tensor, edge_index: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Outputs [N, k] from features [N, F]. Edges have no influence."""
        found = self.start.repeat(x.size(0), 1)
        for first in range(0, len(self.output), BLOCK):
            some = slice(first, first + BLOCK)
            found = found.index_add(1, self.output[some].long(), self.reached(x, some))
        return found

    def reached(self, x: Tensor, some: slice) -> Tensor:
        """Values of the leaves that each node reaches in some trees, [N, trees].

        Nodes of trees are indices of flat tensors, which are read several times faster than rows.
        """
        count, size = self.column[some].shape
        root = torch.arange(0, count * size, size, dtype=torch.int32, device=x.device)
        both = torch.stack([self.left[some], self.right[some]], 2) + root.view(-1, 1, 1)
        column, threshold, value, follower = (
            tensor.flatten()
            for tensor in (self.column[some], self.threshold[some], self.value[some], both)
        )
        features, place = x.flatten(), root.repeat(x.size(0))
        own = torch.arange(x.size(0), device=x.device).repeat_interleave(count) * x.size(1)
        for _ in range(self.depth):
            found = features.index_select(0, own + column.index_select(0, place))
            high = found > threshold.index_select(0, place)
            place = follower.index_select(0, 2 * place + high)
        return value.index_select(0, place).view(-1, count)

    def columns(self) -> list[int]:
        """Columns of the features that decisions use."""
        decides = self.left != torch.arange(self.left.size(1), device=self.left.device)
        return self.column[decides & (self.left != self.right)].unique().tolist()

    def check(self, columns: int) -> None:
        """Require indices in range, which `forward` relies on."""
        size = self.column.size(1)
        ends = {"output": len(self.start), "column": columns, "left": size, "right": size}
        for name, end in ends.items():
            places = getattr(self, name)
            if not 0 <= int(places.min()) <= int(places.max()) < end:
                raise InputError(f"{name} of trees must be places from 0 to {end - 1}")


class Boosting:
    """Training of trees that can be interrupted and continued.

    A round adds one tree to each output.

    Args:
        x: Features, [N, F].
        y: Targets as returned by `Task.learned`.
        task: Kind of target.
        learned: Nodes to learn from.
        held: Nodes whose loss selects the number of rounds; without them it is ``rounds``.
        rounds: Largest number of rounds.
        settings: ``lr``, ``leaves`` and ``depth``.
        class_weight: Weights of the classes in the loss.
        seed: Random seed of the columns that a decision may use.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        task: Task,
        learned: NDArray[np.int64],
        held: NDArray[np.int64] | None,
        *,
        rounds: int,
        settings: Mapping[str, Any],
        class_weight: Tensor | None = None,
        seed: int = 0,
    ):
        self.task, self.rounds, self.settings = task, rounds, settings
        self.x = x.cpu().numpy()[learned]
        targets = y.cpu().numpy()[learned]
        self.targets = [targets] if targets.ndim == 1 else list(targets.T)
        self.weight = None if class_weight is None else class_weight.cpu().numpy()[targets]
        self.held = None if held is None else (x.cpu()[held], y.cpu().numpy()[held])
        self.learners = [self._learner(seed) for _ in self.targets]
        self.grown: list[list[tuple[int, Arrays]]] = []  # for each round, outputs and their trees
        self.start = np.zeros(task.width)
        self.outputs: Tensor | None = None
        self.best, self.lowest, self.pace = 0, np.inf, 1

    @property
    def done(self) -> bool:
        """Whether the training is complete."""
        late = self.held is not None and len(self.grown) - self.best >= PATIENCE
        return len(self.grown) >= self.rounds or late

    def run(self, stop: Callable[[None], bool]) -> None:
        """Grow trees until the end, or until ``stop`` returns True."""
        while not self.done:
            count, begin = len(self.grown), time.monotonic()
            self._grow(min(count + self.pace, self.rounds))
            each = (time.monotonic() - begin) / (len(self.grown) - count)
            self.pace = min(MOST, 2 * self.pace, max(1, int(PAUSE / max(each, 1e-3))))
            if self.held is None:
                self.best = len(self.grown)
            else:
                self._look(count)
            if stop(None):
                return

    def module(self) -> Trees:
        """The trees of the best number of rounds."""
        return self._trees(0, self.best)

    def _learner(self, seed: int) -> Any:
        from sklearn import ensemble  # slow to import

        numbers = self.task.targets == "numbers"
        kind = "HistGradientBoostingRegressor" if numbers else "HistGradientBoostingClassifier"
        return getattr(ensemble, kind)(
            learning_rate=self.settings["lr"],
            max_leaf_nodes=self.settings["leaves"],
            max_depth=self.settings["depth"],
            min_samples_leaf=min(20, max(2, len(self.x) // 20)),
            l2_regularization=1.0,
            max_features=0.5,
            early_stopping=False,
            warm_start=True,
            random_state=seed,
        )

    def _grow(self, rounds: int) -> None:
        """Add trees up to a number of rounds."""
        before = len(self.grown)
        self.grown += [[] for _ in range(rounds - before)]
        for place, (learner, y) in enumerate(zip(self.learners, self.targets, strict=True)):
            if self.task.targets != "numbers" and (y == y[0]).all():
                raise ArithmeticError("trees need nodes of two classes to learn from")
            with threadpool_limits(1 if self.x.size < SERIAL else None):
                learner.set_params(max_iter=rounds).fit(self.x, y, sample_weight=self.weight)
            outputs = [place]
            if self.task.targets == "classes":
                outputs = [int(label) for label in learner.classes_]
                self.start[np.setdiff1d(np.arange(self.task.width), outputs)] = NEVER
                outputs = outputs if len(outputs) > 2 else outputs[1:]
            self.start[outputs] = learner._baseline_prediction.flatten()
            for number, trees in enumerate(learner._predictors[before:], before):
                found = (_arrays(tree.nodes, 2 * self.settings["leaves"] - 1) for tree in trees)
                self.grown[number] += zip(outputs, found, strict=True)

    def _look(self, first: int) -> None:
        """Find the number of rounds with the lowest loss on held nodes."""
        assert self.held is not None
        x, y = self.held
        if self.outputs is None:
            self.outputs = torch.from_numpy(self.start).repeat(len(x), 1)
        trees = self._trees(first, len(self.grown))
        values = trees.reached(x, slice(None)).double().view(len(x), len(self.grown) - first, -1)
        columns = trees.output.view(values.size(1), -1).long()
        for number in range(values.size(1)):
            self.outputs.index_add_(1, columns[number], values[:, number])
            loss = self._loss(self.task.predictions(self.outputs, self.task.loss), y)
            if loss < self.lowest:
                self.lowest, self.best = loss, first + number + 1

    def _loss(self, predictions: Figures, y: NDArray[Any]) -> float:
        if self.task.targets == "numbers":
            y = y * self.task.scale + self.task.centre  # type: ignore[attr-defined]
        return -self.task.gain(predictions, y)[1]

    def _trees(self, first: int, last: int) -> Trees:
        """The trees of some rounds."""
        chosen = [pair for grown in self.grown[first:last] for pair in grown]
        leaves, depth = self.settings["leaves"], self.settings["depth"]
        found = Trees(self.task.width, len(chosen), leaves, depth)
        found.start.copy_(torch.from_numpy(self.start))
        found.output.copy_(torch.tensor([output for output, _ in chosen]))
        for name in chosen[0][1]:
            values = np.stack([arrays[name] for _, arrays in chosen])
            getattr(found, name).copy_(torch.from_numpy(values))
        return found.eval()


def _arrays(nodes: NDArray[Any], size: int) -> Arrays:
    """Convert a tree of scikit-learn for `Trees`; both successors of a leaf are the leaf.

    Features are float32, so thresholds may be rounded down to float32.
    """
    leaf = nodes["is_leaf"].astype(bool)
    wanted = np.where(leaf, 0.0, nodes["num_threshold"])
    near = wanted.astype(np.float32)
    own = np.arange(len(nodes))
    found = {
        "column": np.where(leaf, 0, nodes["feature_idx"]),
        "left": np.where(leaf, own, nodes["left"]),
        "right": np.where(leaf, own, nodes["right"]),
        "threshold": np.where(near > wanted, np.nextafter(near, np.float32(-np.inf)), near),
        "value": nodes["value"],
    }
    return {name: np.pad(values, (0, size - len(nodes))) for name, values in found.items()}
