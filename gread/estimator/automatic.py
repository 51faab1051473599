"""A predictor that is chosen for a graph: the best blend of candidates, and its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.estimator.blend import Probabilities, mean, tempered
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

MOSTLY = 0.6
"""Edge homophily above which neighbours mostly share a class."""

MEMBERS = "members"
"""Folder of the weights in a model folder."""


@dataclass(frozen=True)
class Member:
    """A candidate in a blend, trained.

    Attributes:
        candidate: What it is.
        weight: Of its probabilities on the graph that it was trained on.
        grown: The same for nodes that are added to this graph; 0 if it cannot predict them.
        elsewhere: The same on other graphs; 0 if it cannot predict there.
        module: Its network; None of label propagation.
    """

    candidate: Candidate
    weight: float
    grown: float
    elsewhere: float
    module: nn.Module | None


@dataclass(frozen=True)
class Blend:
    """The weighted mean of the probabilities of several members, with a temperature.

    Attributes:
        members: Trained candidates.
        classes: How many.
        temperatures: T of `gread.estimator.blend.tempered`, on the graph of the training, on
            others, and for nodes that are added.
    """

    members: Sequence[Member]
    classes: int
    temperatures: tuple[float, float, float]

    def probabilities(
        self, data: Data, known: Tensor | None, device: str = "cpu", *, grown: bool = False
    ) -> Probabilities:
        """Of every node, [N, classes].

        Args:
            data: ``x``, ``edge_index`` with directions if there are any, ``y`` where known.
            known: Nodes of the graph of the training whose classes may be used, [N]; None on
                another graph, where members that need them, or have weights for each node, are left
                out.
            device: Where networks compute.
            grown: Whether nodes were added to the graph of the training, so that members with
                weights for each node are left out.
        """
        used = self.used(known is None, grown)
        found = (self._of(one, data, known, device) for one, _ in used)
        mixed = mean([weight for _, weight in used], found)
        return tempered(mixed, self.temperatures[1 if known is None else 2 * grown])

    def used(self, elsewhere: bool, grown: bool) -> list[tuple[Member, float]]:
        """Members with their weights on another graph, a grown one, or that of the training."""
        name = "elsewhere" if elsewhere else "grown" if grown else "weight"
        found = [(one, getattr(one, name)) for one in self.members if getattr(one, name)]
        if not found:
            raise InputError(
                "no candidate that was trained can predict on another graph: take more time, or a "
                "model that can, for instance gread-x"
            )
        return found

    def left_out(self, grown: bool) -> list[str]:
        """Titles of members that cannot predict on a grown graph, or else on another."""
        unable = [one for one in self.members if one.weight and one.candidate.transductive()]
        return [one.candidate.title for one in unable if not grown or one.candidate.bound()]

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
        rows = [
            {
                "candidate": asdict(one.candidate),
                "weight": one.weight,
                "grown": one.grown,
                "elsewhere": one.elsewhere,
            }
            for one in self.members
        ]
        return {"members": rows, "temperatures": self.temperatures}

    @staticmethod
    def read(
        folder: Path, about: Mapping[str, Any], features: int, classes: int, nodes: int
    ) -> Blend:
        """What `write` has written."""
        members = []
        for number, row in enumerate(about["members"]):
            candidate = Candidate(**row["candidate"])
            module = None
            if candidate.model != PROPAGATION:
                build = partial(built, candidate, features, classes, nodes)
                module = load_module(build, folder / MEMBERS / f"{number}.safetensors")
            grown = row.get("grown", row["elsewhere"])  # a folder from before nodes could be added
            members.append(Member(candidate, row["weight"], grown, row["elsewhere"], module))
        here, elsewhere, *rest = map(float, about["temperatures"])
        return Blend(members, classes, (here, elsewhere, rest[0] if rest else elsewhere))


def explained(choice: Choice, homophily: float | None) -> str:
    """What the graph adds to the features, in one sentence.

    Args:
        choice: With candidates of both kinds.
        homophily: Share of edges between nodes of one class; None if unknown.
    """
    free = [one for one in choice.scored if one.candidate.without_graph]
    seeing = [one for one in choice.scored if not one.candidate.without_graph]
    if not free or not seeing:
        return ""
    points = 100 * (seeing[0].gain[0] - free[0].gain[0])
    against = f"{seeing[0].candidate.title} against {free[0].candidate.title}"
    change = "adds" if points >= 0 else "loses"
    told = f"the graph {change} {abs(points):.1f} points of validation ({against})."
    if homophily is None:
        return told[0].upper() + told[1:]
    if homophily > MOSTLY:
        return f"Neighbours mostly share a class: {told}"
    if homophily < 1 - MOSTLY:
        return f"Neighbours mostly differ in class: {told}"
    return f"Neighbours share a class about half the time: {told}"


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
    scored = race(problem, portfolio(), SHARE * seconds, on_score)
    choice = choose(problem, scored)
    # What can predict added nodes, or on another graph, is chosen for itself.
    grown, grown_t = _chosen(problem, [one for one in scored if not one.candidate.bound()])
    there, there_t = _chosen(problem, [one for one in scored if not one.candidate.transductive()])
    members = []
    for one, weight in zip(scored, choice.weights, strict=True):
        weights = weight, grown.get(id(one), 0.0), there.get(id(one), 0.0)
        if not any(weights):
            continue
        epochs = max(1, round(float(np.mean(one.epochs))))
        now = time.monotonic()
        until = max(begin + seconds, now + 2 * one.seconds)  # what is chosen is trained
        trained = train(
            problem,
            one.candidate,
            problem.learned,
            None,
            epochs=epochs,
            until=until,
            seed=problem.seed,
        )
        members.append(Member(one.candidate, *weights, trained.module))
    return Blend(members, problem.classes, (choice.temperature, there_t, grown_t)), choice


def _chosen(problem: Problem, able: list[Scored]) -> tuple[dict[int, float], float]:
    """The weights of a blend of some candidates by their ``id``, as titles repeat, and its T."""
    if not able:
        return {}, 1.0
    found = choose(problem, able)
    return {id(one): weight for one, weight in zip(able, found.weights, strict=True)}, (
        found.temperature
    )
