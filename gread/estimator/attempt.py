"""Training of a candidate on some of the labelled nodes, in one turn or in several."""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

from gread.estimator.candidates import PROPAGATION, RELATIONS, TREES, Candidate, built
from gread.estimator.problem import Problem
from gread.estimator.propagation import propagated, smoothed
from gread.estimator.scores import Figures
from gread.estimator.task import Task
from gread.estimator.trees import Boosting
from gread.runs.presets import split_settings
from gread.training.config import TrainConfig
from gread.training.fit import Training, logits_of

EPOCHS, PATIENCE = 600, 60

FOREVER = float("inf")


@dataclass(frozen=True)
class Trained:
    """A trained candidate.

    Attributes:
        candidate: Candidate with the number of its columns and types.
        predictions: Predictions for every node, [N, k].
        epochs: Number of epochs until the best one.
    """

    candidate: Candidate
    predictions: Figures
    epochs: int = 0


class Attempt:
    """A candidate that learns from ``nodes``. Its training can be interrupted and continued.

    Args:
        problem: The graph.
        candidate: Candidate to train.
        nodes: Nodes to learn from, [n].
        held: Nodes that select the best epoch, [h]. By default, it is the epoch with the lowest
            loss on ``nodes``, which is the last or close to it.
        epochs: Largest number of epochs.
        seed: Random seed of the training.
        start: Parameters to start from; by default random ones.
    """

    def __init__(
        self,
        problem: Problem,
        candidate: Candidate,
        nodes: NDArray[np.int64],
        held: NDArray[np.int64] | None,
        *,
        epochs: int = EPOCHS,
        seed: int = 0,
        start: Mapping[str, Tensor] | None = None,
    ):
        self.problem, self.candidate = problem, candidate
        self.known = torch.zeros(problem.data.num_nodes, dtype=torch.bool)
        self.known[nodes] = True
        self.data = problem.graph(candidate, self.known)
        self.training: Training | Boosting | None = None
        self.best_state: Mapping[str, Tensor] | None = None
        if candidate.model == PROPAGATION:
            return
        self.candidate = candidate = _sized(problem, candidate, self.data)
        task, weights = problem.task, problem.weights(candidate, nodes)
        self.data.train_mask = self.known
        self.data.val_mask = self.data.test_mask = (
            self.known if held is None else _mask(held, self.known)
        )
        self.data = self.data.to(problem.device)
        if candidate.model == TREES:
            self._random = torch.get_rng_state()
            self.training = Boosting(
                self.data.x,
                self.data.y,
                task,
                nodes,
                held,
                rounds=epochs,
                settings=candidate.settings,
                class_weight=weights,
                seed=seed,
            )
            return
        _, given = split_settings(candidate.model, candidate.settings)
        usual: dict[str, Any] = {"epochs": epochs, "patience": PATIENCE}
        config = TrainConfig(**usual | {"loss": task.loss, "metric": task.metric} | given)
        if held is None:
            config = replace(config, epochs=epochs, patience=None, metric=task.steady)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.module = built(candidate, self.data.num_features, task.width, self.data.num_nodes)
            self.module = self.module.to(problem.device)
            self._random = torch.get_rng_state()
        if start is not None:
            self.module.load_state_dict(start)
        self.training = Training(self.module, self.data, config, class_weight=weights)
        self.best_state = self.training.best_state

    @property
    def done(self) -> bool:
        """Whether the training is complete."""
        return self.training is None or self.training.done

    def run(self, until: float = FOREVER) -> None:
        """Train for at least one epoch, until the end or until a value of `time.monotonic`.

        Random numbers do not depend on how often the training is interrupted.
        """
        if self.training is None:
            return
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._random)
            self.training.run(lambda epoch: time.monotonic() > until)
            self._random = torch.get_rng_state()

    def trained(self) -> Trained:
        """The result so far, with the parameters of the best epoch."""
        problem = self.problem
        if self.candidate.model == PROPAGATION:
            found = propagated(self.data, self.known, problem.task, problem.data.y)
            return Trained(self.candidate, found)
        assert self.training is not None
        if isinstance(self.training, Boosting):
            trees = self.training.module()
            self.best_state = trees.state_dict()
            found = predicted(trees.to(problem.device), self.data, problem.task)
            epochs = self.training.best
        else:
            with self.training.at_best():
                found = predicted(self.module, self.data, problem.task)
            epochs = self.training.result().best.number + 1
        if self.candidate.smooth:
            found = self.smoothed(found)
        return Trained(self.candidate, found, epochs)

    def best_module(self) -> nn.Module | None:
        """The network with the parameters of its best epoch, on the CPU; None for propagation."""
        if self.training is None:
            return None
        if isinstance(self.training, Boosting):
            return self.module_at(self.training.module().state_dict())
        self.module.load_state_dict(self.training.best_state)
        return self.module.cpu()

    def module_at(self, state: Mapping[str, Tensor]) -> nn.Module:
        """Copy of the network with other parameters, or with other trees, on the CPU."""
        if self.candidate.model == TREES:
            settings = {**self.candidate.settings, "trees": len(state["output"])}
            self.candidate = replace(self.candidate, settings=settings)
            sizes = self.data.num_features, self.problem.task.width, self.data.num_nodes
            found = built(self.candidate, *sizes)
        else:
            found = deepcopy(self.module).cpu()
        found.load_state_dict(state)
        return found

    def release(self) -> None:
        """Free the network and the state of its training, except for the best parameters."""
        if isinstance(self.training, Training):
            del self.module
        self.training = None

    def smoothed(self, predictions: Figures) -> Figures:
        """Correct and smooth predictions, see `gread.estimator.propagation.smoothed`."""
        task, y = self.problem.task, self.problem.data.y
        return smoothed(self.data, self.known, task, y, predictions)


def predicted(module: nn.Module, data: Data, task: Task) -> Figures:
    """Predictions for every node, [N, k]."""
    outputs = logits_of(module, data, data.train_mask, TrainConfig()).detach()
    return task.predictions(outputs, task.loss)


def _sized(problem: Problem, candidate: Candidate, data: Data) -> Candidate:
    """Return the candidate with the numbers of its columns and of its edge types."""
    candidate = replace(candidate, columns=data.num_features)
    if data.get("edge_type") is None:
        return candidate
    assert problem.relations is not None
    types = {RELATIONS: len(problem.relations.names)}
    return replace(candidate, settings={**candidate.settings, **types})


def _mask(nodes: NDArray[np.int64], like: Tensor) -> Tensor:
    found = torch.zeros_like(like)
    found[nodes] = True
    return found
