"""A predictor that is chosen for a graph: the best blend of candidates, and its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.estimator.blend import Probabilities, tempered
from gread.estimator.race import (
    PROPAGATION,
    Candidate,
    Choice,
    Problem,
    Scored,
    built,
    choose,
    portfolio,
    predicted,
    propagated,
    race,
    smoothed,
    train,
)
from gread.models.hub import load_module, save_weights

SHARE = 0.75
"""Of the time for the race; the rest is for the training of what it chooses on all nodes."""

MEMBERS = "members"


@dataclass(frozen=True)
class Member:
    """A candidate in a blend, trained.

    Attributes:
        candidate: What it is.
        weight: Of its probabilities.
        module: Its network; None of label propagation.
    """

    candidate: Candidate
    weight: float
    module: nn.Module | None


@dataclass(frozen=True)
class Blend:
    """The weighted mean of the probabilities of several members, with a temperature.

    Attributes:
        classes: How many.
        temperature: T of `gread.estimator.blend.tempered`.
    """

    members: Sequence[Member]
    classes: int
    temperature: float

    def probabilities(self, data: Data, known: Tensor | None, device: str = "cpu") -> Probabilities:
        """Of every node, [N, classes].

        Args:
            data: ``x``, ``edge_index`` with directions if there are any, ``y`` where known.
            known: Nodes whose classes may be used, [N]; None on another graph, where members that
                need them, or have weights for each node, are left out.
            device: Where networks compute.
        """
        able = [
            one for one in self.members if known is not None or not one.candidate.transductive()
        ]
        if not able:
            raise InputError(
                "what was chosen for the graph needs its nodes, so it cannot predict on another: "
                "fit with --model gread-x, or another model that can"
            )
        total = sum(one.weight for one in able)
        mixed = sum(one.weight / total * self._of(one, data, known, device) for one in able)
        return tempered(mixed, self.temperature)

    def _of(self, one: Member, data: Data, known: Tensor | None, device: str) -> Probabilities:
        view = Problem(data, np.zeros(0, dtype=np.int64), self.classes).graph(one.candidate)
        if one.module is None:
            assert known is not None
            return propagated(view, known, self.classes)
        view.train_mask = torch.zeros(view.num_nodes, dtype=torch.bool) if known is None else known
        found = predicted(one.module.to(device), view.to(device))
        if one.candidate.smooth:
            assert known is not None
            found = smoothed(view, known, found)
        return found

    def write(self, folder: Path) -> dict[str, Any]:
        """Writes the weights, and gives all else as plain values."""
        (folder / MEMBERS).mkdir()
        for number, one in enumerate(self.members):
            if one.module is not None:
                save_weights(one.module, folder / MEMBERS, f"{number}.safetensors")
        rows = [asdict(one.candidate) | {"weight": one.weight} for one in self.members]
        return {"members": rows, "temperature": self.temperature}

    @staticmethod
    def read(
        folder: Path, about: Mapping[str, Any], features: int, classes: int, nodes: int
    ) -> Blend:
        """What `write` has written."""
        members = []
        for number, row in enumerate(about["members"]):
            weight = float(row["weight"])
            candidate = Candidate(**{name: row[name] for name in row if name != "weight"})
            module = None
            if candidate.model != PROPAGATION:

                def build(candidate: Candidate = candidate) -> nn.Module:
                    return built(candidate, features, classes, nodes)

                module = load_module(build, folder / MEMBERS / f"{number}.safetensors")
            members.append(Member(candidate, weight, module))
        return Blend(members, classes, float(about["temperature"]))


def fit_blend(
    problem: Problem, seconds: float, on_score: Callable[[Scored], None] | None = None
) -> tuple[Blend, Choice]:
    """The best blend of candidates that a time allows, trained on all nodes to learn from.

    Args:
        problem: The graph.
        seconds: How long it may take, about.
        on_score: Called with every candidate that was scored.
    """
    begin = time.monotonic()
    choice = choose(problem, race(problem, portfolio(), SHARE * seconds, on_score))
    members = []
    for one, weight in zip(choice.scored, choice.weights, strict=True):
        if not weight:
            continue
        epochs = max(1, round(float(np.mean(one.epochs))))
        left = begin + seconds - time.monotonic()
        until = time.monotonic() + max(left, 2 * one.seconds)  # what is chosen is trained
        trained = train(
            problem,
            one.candidate,
            problem.learned,
            None,
            epochs=epochs,
            until=until,
            seed=problem.seed,
        )
        members.append(Member(one.candidate, weight, trained.module))
    return Blend(members, problem.classes, choice.temperature), choice
