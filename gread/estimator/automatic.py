"""The blend of the best candidates for a graph, and its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.base.tensors import write_tensors
from gread.estimator.attempt import Attempt, predicted
from gread.estimator.blend import mean
from gread.estimator.candidates import PROPAGATION, TREES, Candidate, built, portfolio
from gread.estimator.problem import Problem
from gread.estimator.propagation import propagated, smoothed
from gread.estimator.race import Choice, OnScore, Scored, choose, race
from gread.estimator.scores import Figures, apart
from gread.estimator.task import Task
from gread.estimator.trees import Trees
from gread.models.hub import load_module, save_weights

SHARE = 0.85
"""Share of the time for the race; the rest is for training the chosen candidates on all nodes."""

SEEDS = 5
"""Number of seeds with which the chosen networks are trained on all nodes, if time permits."""

MORE = 0.2
"""Epochs on all nodes per epoch of the race, if the training of the race continues."""

MOSTLY = 0.6
"""Edge homophily above which neighbours mostly share a class."""

NO_NODES = np.zeros(0, dtype=np.int64)

MEMBERS, COMPONENTS = "members", "components"
"""Folder of the weights in a model folder, and the file there with components of the features."""


class Where(IntEnum):
    """Nodes to predict: of the training graph, of another graph, or added nodes.

    Temperatures and thresholds come in this order.
    """

    HERE = 0
    ELSEWHERE = 1
    GROWN = 2

    @property
    def title(self) -> str:
        """The nodes, for a message."""
        return ("the training graph", "another graph", "new nodes")[self]


def able(candidate: Candidate, where: Where) -> bool:
    """Whether a candidate can predict these nodes."""
    if where is Where.GROWN:
        return not candidate.bound()
    return where is Where.HERE or not candidate.transductive()


@dataclass(frozen=True)
class Member:
    """A candidate in a blend, trained.

    Attributes:
        candidate: Model, settings and encoding.
        weight: Weight of its predictions on the training graph.
        grown: Weight for nodes that are added to the training graph; 0 if it cannot predict them.
        elsewhere: Weight on other graphs; 0 if it cannot predict them.
        module: Network; None for label propagation.
    """

    candidate: Candidate
    weight: float
    grown: float
    elsewhere: float
    module: nn.Module | None

    def share(self, where: Where) -> float:
        """Weight of the member for these nodes."""
        return (self.weight, self.elsewhere, self.grown)[where]


@dataclass(frozen=True)
class Blend:
    """The weighted mean of the predictions of several members, with a temperature.

    Attributes:
        members: Trained candidates.
        task: Task of the members.
        temperatures: T of `gread.estimator.blend.tempered`, by `Where`.
        components: Principal components of the features, if a member uses them, [F, k].
    """

    members: Sequence[Member]
    task: Task
    temperatures: tuple[float, float, float]
    components: Tensor | None = None

    def predictions(
        self, data: Data, known: Tensor | None, device: str = "cpu", where: Where = Where.HERE
    ) -> Figures:
        """Predict every node, [N, k].

        Args:
            data: Graph with ``x``, ``edge_index`` with directions if any, and ``y`` where known.
            known: Nodes whose targets may be used, [N]; None on another graph.
            device: Device of the networks.
            where: Nodes to predict. Members that cannot predict them are left out.
        """
        used, problem = self.used(where), self.problem(data)
        views = {one.candidate.view: one.candidate for one in used}
        graphs = {view: problem.graph(one, known) for view, one in views.items()}
        networks: dict[Any, list[Member]] = {}
        for one in used:
            networks.setdefault((id(one.module), one.candidate.view), []).append(one)
        weights = [one.share(where) for sharing in networks.values() for one in sharing]
        found = chain.from_iterable(
            self._of(sharing, graphs[view], data, known, device)
            for (_, view), sharing in networks.items()
        )
        return self.task.tempered(mean(weights, found), self.temperatures[where])

    def used(self, where: Where) -> list[Member]:
        """Members with a non-zero weight for these nodes."""
        found = [one for one in self.members if one.share(where)]
        if not found:
            raise InputError(
                f"no trained candidate can predict {where.title}: use more time, or a model that "
                "can, for example gread-x"
            )
        return found

    def left_out(self, where: Where) -> list[str]:
        """Titles of members that cannot predict these nodes."""
        used = [one.candidate for one in self.members if one.weight]
        return list(dict.fromkeys(one.title for one in used if not able(one, where)))

    def problem(self, data: Data) -> Problem:
        """Problem without nodes to learn from, which prepares a graph for members."""
        return Problem(data, NO_NODES, self.task, components=self.components)

    def _of(
        self, sharing: Sequence[Member], view: Data, data: Data, known: Tensor | None, device: str
    ) -> Iterator[Figures]:
        """Predictions of members that share a network, which is evaluated once."""
        module = sharing[0].module
        if module is None:
            assert known is not None
            found = propagated(view, known, self.task, data.y)
        else:
            view = copy(view)  # other members use the original on the CPU
            none = torch.zeros(view.num_nodes, dtype=torch.bool)
            view.train_mask = none if known is None else known
            found = predicted(module.to(device), view.to(device), self.task)
        for one in sharing:
            if one.candidate.smooth:
                assert known is not None
                yield smoothed(view, known, self.task, data.y, found)
            else:
                yield found

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the weights, and return everything else as plain values."""
        (folder / MEMBERS).mkdir()
        for number, one in enumerate(self.members):
            if one.module is not None:
                save_weights(one.module, folder / MEMBERS, f"{number}.safetensors")
        if self.components is not None:
            path = folder / MEMBERS / f"{COMPONENTS}.safetensors"
            write_tensors(path, {COMPONENTS: self.components})
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
        folder: Path, about: Mapping[str, Any], features: int, task: Task, nodes: int
    ) -> Blend:
        """Read a blend that `write` has written."""
        members: list[Member] = []
        for number, row in enumerate(about["members"]):
            given = dict(row["candidate"])
            if (old := given.pop("encoding", None)) is not None:  # former name of `scaling`
                given["scaling"] = {"given": "none", "rows": "row"}.get(old, old)
            candidate = Candidate(**given)
            module = None
            if candidate.model != PROPAGATION:
                build = partial(built, candidate, features, task.width, nodes)
                module = load_module(build, folder / MEMBERS / f"{number}.safetensors")
                if isinstance(module, Trees):
                    module.check(candidate.columns or features)
                module = _shared(candidate, module, members)
            grown = row.get("grown", row["elsewhere"])  # a folder from before nodes could be added
            members.append(Member(candidate, row["weight"], grown, row["elsewhere"], module))
        here, elsewhere, *rest = map(float, about["temperatures"])
        temperatures = here, elsewhere, rest[0] if rest else elsewhere
        file = folder / MEMBERS / f"{COMPONENTS}.safetensors"
        components = load_file(file)[COMPONENTS] if file.exists() else None
        return Blend(members, task, temperatures, components)


def explained(choice: Choice, metric: str, homophily: float | None) -> str:
    """Summarize in one sentence what the graph adds to the features.

    Args:
        choice: Comparison of candidates. If all or none of them use the graph, the sentence is
            empty.
        metric: Metric of the comparison.
        homophily: Share of edges between nodes of one class; None if unknown.
    """
    free = [one for one in choice.scored if one.candidate.without_graph]
    seeing = [one for one in choice.scored if not one.candidate.without_graph]
    if not free or not seeing:
        return ""
    difference = seeing[0].gain[0] - free[0].gain[0]
    against = f"{seeing[0].candidate.title} against {free[0].candidate.title}"
    change = "improves" if difference > 0 else "worsens"
    sentence = f"the graph {change} the validation {metric} by {apart(metric, difference)}"
    if difference == 0:
        sentence = f"the graph does not change the validation {metric}"
    sentence += f" ({against})."
    if homophily is None:
        return sentence[0].upper() + sentence[1:]
    if homophily > MOSTLY:
        return f"Neighbours mostly share a class: {sentence}"
    if homophily < 1 - MOSTLY:
        return f"Neighbours mostly differ in class: {sentence}"
    return f"Neighbours share a class about half the time: {sentence}"


def fit_blend(
    problem: Problem, seconds: float, on_score: OnScore | None = None
) -> tuple[Blend, tuple[Choice, ...]]:
    """Find the best blend of candidates within a time budget, and train it.

    Returns the blend and one choice for each `Where`, made among the candidates that can predict
    these nodes.

    Args:
        problem: The graph.
        seconds: Time budget, approximately.
        on_score: See `gread.estimator.race.OnScore`.
    """
    begin = time.monotonic()
    took: list[float] = []  # seconds until a network was scored

    def note(scores: Sequence[Scored]) -> None:
        if any(one.candidate.model != PROPAGATION for one in scores):
            took.append(time.monotonic() - begin)
        if on_score is not None:
            on_score(scores)

    end = begin + seconds

    def hurry() -> None:
        nonlocal end
        end = begin + (time.monotonic() - begin) / SHARE

    scored = race(problem, portfolio(), SHARE * seconds, note, hurry)
    if not scored:
        raise InputError("a candidate must be trained, got none whose loss is finite")
    if took and took[0] > seconds:
        raise InputError(
            f"time must be enough for one candidate, which took {took[0] / 60:.2g} minutes here, "
            f"got {seconds / 60:.2g}"
        )
    choices = tuple(_chosen(problem, scored, where) for where in Where)
    shares = {n: tuple(_weight(choice, one) for choice in choices) for n, one in enumerate(scored)}
    used = [(one, shares[n]) for n, one in enumerate(scored) if any(shares[n])]
    members = _refitted(problem, used, end, lambda: note(scored))
    compressed = any(one.candidate.compressed for one in members)
    components = problem.principal if compressed else None
    here, there, grown = (choice.temperature for choice in choices)
    return Blend(members, problem.task, (here, there, grown), components), choices


def _refitted(
    problem: Problem,
    chosen: Sequence[tuple[Scored, tuple[float, ...]]],
    end: float,
    on_network: Callable[[], None],
) -> list[Member]:
    """Train the chosen candidates on all nodes, with more seeds while time remains.

    Candidates with and without correction by neighbours share a network. The network with the
    largest weight is trained first. Ctrl-C ends the training once every network is trained.
    """
    distinct: dict[str, Scored] = {}
    weights: dict[str, float] = {}
    for one, shares in chosen:
        key = _network(one.candidate)
        distinct.setdefault(key, one)
        weights[key] = weights.get(key, 0.0) + shares[Where.HERE]
    networks = {key: _kept(problem, one) for key, one in distinct.items()}
    order = sorted(weights, key=weights.__getitem__, reverse=True)
    try:
        for seed, key in product(range(SEEDS), order):
            one, own = distinct[key], networks[key]
            took = _share(one, seed) * one.seconds / len(problem.folds)
            random = one.candidate.model != PROPAGATION
            if not own or (random and time.monotonic() + took < end):
                until = max(end, time.monotonic() + 2 * took)
                own.append(_trained(problem, one, seed, until))
                on_network()
    except KeyboardInterrupt:
        if not all(networks.values()):
            raise
    members = []
    for one, shares in chosen:
        own = networks[_network(one.candidate)]
        here, there, grown = (share / len(own) for share in shares)
        for sized, module in own:
            candidate = replace(one.candidate, columns=sized.columns, settings=sized.settings)
            members.append(Member(candidate, here, grown, there, module))
    return members


Network = tuple[Candidate, nn.Module | None]
"""A candidate with the sizes of its network, and the network."""


def _kept(problem: Problem, one: Scored) -> list[Network]:
    """The network of the race, which stays in the blend; empty if there are folds."""
    if one.state is None:
        return []
    attempt = Attempt(problem, one.candidate, problem.learned, None)
    module = attempt.module_at(one.state)  # sets the number of trees
    return [(attempt.candidate, module)]


def _share(one: Scored, seed: int) -> float:
    """Epochs of the training on all nodes, as a share of the epochs in the race."""
    continues = one.interrupted and one.state is not None and one.candidate.model != TREES
    return MORE if seed == 0 and continues else 1.0


def _trained(problem: Problem, one: Scored, seed: int, until: float) -> Network:
    """Train a network on all nodes.

    Without folds, a training that the race interrupted continues for `MORE` of its epochs. On
    13,752 products (Amazon-Computers) this was as good as a new training, in a fifth of the time.
    A complete training would overfit if continued, so it is repeated from random parameters. So is
    a training on folds, whose networks are not kept.
    """
    share = _share(one, seed)
    attempt = Attempt(
        problem,
        one.candidate,
        problem.learned,
        None,
        epochs=max(1, round(share * float(np.mean(one.epochs)))),
        seed=problem.seed + seed,
        start=one.state if share == MORE else None,
    )
    attempt.run(until)
    module = attempt.best_module()
    return attempt.candidate, module


def _network(candidate: Candidate) -> str:
    """Key that is equal for candidates with the same network."""
    return repr(replace(candidate, title="", reason="", smooth=False))


def _shared(candidate: Candidate, module: nn.Module, members: Sequence[Member]) -> nn.Module:
    """Return an equal network of a member if there is one, or else ``module``."""
    own = module.state_dict()
    for other in members:
        if other.module is not None and _network(other.candidate) == _network(candidate):
            state = other.module.state_dict()
            if all(torch.equal(value, state[name]) for name, value in own.items()):
                return other.module
    return module


def _chosen(problem: Problem, scored: list[Scored], where: Where) -> Choice:
    """Best blend of the candidates that can predict these nodes; empty if there are none."""
    found = [one for one in scored if able(one.candidate, where)]
    return choose(problem, found) if found else Choice([], [], 1.0, (-np.inf, -np.inf))


def _weight(choice: Choice, one: Scored) -> float:
    """Weight of a candidate, found by identity because titles of variants repeat."""
    pairs = zip(choice.scored, choice.weights, strict=True)
    return next((weight for other, weight in pairs if other is one), 0.0)
