"""A graph with labelled nodes, for training candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gread.estimator.candidates import PROPAGATION, TREES, Candidate
from gread.estimator.compression import components, is_heavy, is_wide
from gread.estimator.graphs import relations_of
from gread.estimator.neighbourhood import directions, joined, surroundings
from gread.estimator.scores import Figures
from gread.estimator.task import Classes, Task
from gread.graph.structure.spectral import spectral_positions
from gread.tables.graph import Relations
from gread.tables.scaling import SCALINGS

FEW, FOLDS = 2000, 5
"""Number of labelled nodes below which there are folds, and number of folds."""

POSITIONS = ("positions", "directed_positions")
"""Names of positions in a graph, without and with directions."""

OUTPUTS = 2_000_000
"""Largest number of predictions (nodes times outputs) with trees; networks are faster."""

TRIED = ("none", "row", "binary")
"""Scalings of features that are tried for the best network."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph with labelled nodes to learn from.

    Attributes:
        data: Graph with ``x``, ``edge_index`` (directed if the graph is) and, for training, the
            targets ``y`` of the task. ``edge_weight`` and types of edges, see `relations_of`, are
            optional.
        learned: Nodes to learn from, [n], without test nodes.
        task: Targets, and the metric by which candidates are compared.
        held: Validation nodes among ``learned``, if the user has given a split.
        class_weight: As in ``gread.fit``.
        seed: Random seed of folds and trainings.
        device: Device on which networks are trained.
        components: See `Candidate.features`; by default they are computed when needed.
        grows: Whether predictions are on a graph with more edges, which has other positions.
    """

    data: Data
    learned: NDArray[np.int64]
    task: Task
    held: NDArray[np.int64] | None = None
    class_weight: Tensor | None = None
    seed: int = 0
    device: str = "cpu"
    components: Tensor | None = None
    grows: bool = False

    @cached_property
    def folds(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Pairs of nodes to train on and nodes to score on."""
        if self.held is not None:
            return [(np.setdiff1d(self.learned, self.held), self.held)]
        y = self.task.strata(self.data.y.numpy()[self.learned])
        rare = np.bincount(y)
        least = int(rare[rare > 0].min())
        about: dict[str, Any] = {"random_state": self.seed}
        if len(y) < FEW:
            count = max(2, min(FOLDS, least))
            parts = StratifiedKFold(count, shuffle=True, **about).split(y, y)
        else:
            parts = StratifiedShuffleSplit(1, test_size=0.2, **about).split(
                y, y if least > 1 else None
            )
        return [(self.learned[train], self.learned[held]) for train, held in parts]

    @cached_property
    def has_directions(self) -> bool:
        """Whether some edge lacks its reverse."""
        return bool(self.data.is_directed())

    @cached_property
    def relations(self) -> Relations | None:
        """Edges with their types and directions, if they have types."""
        return relations_of(self.data)

    @cached_property
    def undirected_relations(self) -> Relations | None:
        """Every edge of each type in both directions."""
        if self.relations is None:
            return None
        return self.relations.once(int(self.data.num_nodes), directed=False)

    def able(self, candidate: Candidate) -> bool:
        """Whether a candidate suits the graph: its types, directions, positions and size.

        Trees are used for few dense columns and few outputs only.
        """
        x = self.data.x
        many = is_wide(x) or x.size(0) * self.task.width > OUTPUTS
        if candidate.model == TREES and (many or x.layout is not torch.strided):
            return False
        if candidate.positions and self.grows:
            return False
        if not candidate.typed:
            return self.has_directions or not candidate.directed
        if self.relations is None or self.undirected_relations is None:
            return False
        lacking = self.undirected_relations.index.size(1) > self.relations.index.size(1)
        return lacking or not candidate.directed

    @cached_property
    def undirected(self) -> tuple[Tensor, Tensor | None]:
        """Every edge in both directions."""
        weight, options = self.data.edge_weight, {"num_nodes": self.data.num_nodes}
        if not self.has_directions:
            return self.data.edge_index, weight
        if weight is None:
            return to_undirected(self.data.edge_index, **options), None
        return to_undirected(self.data.edge_index, weight, reduce="mean", **options)

    @cached_property
    def principal(self) -> Tensor:
        """The components of the features, [F, k]."""
        return components(self.data.x) if self.components is None else self.components

    @cached_property
    def encoded(self) -> dict[str, Tensor]:
        """Cache of encoded features and of positions, by name."""
        return {}

    def suited(self, candidate: Candidate) -> Candidate:
        """Return the candidate with compressed features if the given ones are heavy."""
        heavy = candidate.model != PROPAGATION and is_heavy(self.data.x)
        return replace(candidate, compressed=heavy)

    def positions(self, *, directed: bool) -> Tensor:
        """Spectral positions of the nodes, [N, F]: those in the graph, or computed once."""
        name = POSITIONS[directed]
        if self.data.get(name) is not None:
            found: Tensor = self.data[name]
            return found
        if name not in self.encoded:
            edges, nodes = (
                self.data.edge_index if directed else self.undirected[0],
                self.data.num_nodes,
            )
            self.encoded[name] = spectral_positions(edges, int(nodes or 0), directed=directed)
        return self.encoded[name]

    def graph(self, candidate: Candidate, known: Tensor | None = None) -> Data:
        """The graph as a candidate uses it, without masks.

        Args:
            candidate: Candidate.
            known: Mask of nodes whose targets may become features of others, [N].
        """
        name = "compressed" if candidate.compressed else candidate.scaling
        x = self.encoded.get(name)
        if x is None:
            principal = self.principal if candidate.compressed else None
            x = self.encoded[name] = candidate.features(self.data.x, principal)
        edges = (
            (self.data.edge_index, self.data.edge_weight) if candidate.directed else self.undirected
        )
        if candidate.positions:
            x = joined(x, self.positions(directed=candidate.directed).to(x.device))
        relations = None
        if candidate.typed:
            relations = self.relations if candidate.directed else self.undirected_relations
            assert relations is not None
        if candidate.neighbours:
            assert known is not None
            parts = [edges[0], *(relations.parts() if relations is not None else ())]
            groups = [directions(part, len(known), candidate.directed) for part in parts]
            x = joined(x, surroundings(groups, x, known, self.task.around(self.data.y)))
            relations = None
        if relations is not None:
            edges = relations.index, relations.weight
        data = Data(x=x, edge_index=edges[0])
        if self.data.y is not None:
            data.y = self.task.learned(self.data.y)
        if edges[1] is not None:
            data.edge_weight = edges[1]
        if relations is not None:
            data.edge_type = relations.kind
        return data

    def gain(self, predictions: Figures, nodes: NDArray[np.int64]) -> tuple[float, float]:
        """The value to maximize, see `Task.gain`."""
        return self.task.gain(predictions, self.data.y.numpy()[nodes])

    def weights(self, candidate: Candidate, nodes: NDArray[np.int64]) -> Tensor | None:
        """Class weights of a candidate that learns from ``nodes``."""
        if self.class_weight is not None or not candidate.balanced:
            return self.class_weight
        return balanced(self.data.y[nodes], self.task.width)


def balanced(y: Tensor, classes: int) -> Tensor:
    """Class weights, inversely proportional to class sizes, with a mean of 1 over the nodes."""
    sizes = y.bincount(minlength=classes).float()
    return len(y) / (sizes.clamp_min(1) * (sizes > 0).sum())


def variants(problem: Problem, best: Candidate) -> Iterator[Candidate]:
    """Yield variants of the best candidate."""
    uneven = isinstance(problem.task, Classes) and problem.task.metric != "accuracy"
    if uneven and problem.class_weight is None and not best.balanced:
        yield replace(
            best, title=f"{best.title}, balanced", balanced=True, reason="some classes are rare"
        )
    typed = best.can_be_typed() and replace(best, typed=True, title=f"{best.title}, typed")
    if typed and not best.typed and problem.able(typed):
        yield replace(typed, reason="edges have types")
    placed = replace(best, positions=True, title=f"{best.title}, positions")
    if not best.positions and problem.able(placed):
        yield replace(placed, reason="where a node stands in the graph may tell its class")
    if is_wide(problem.data.x) and not best.compressed:
        yield replace(
            best,
            title=f"{best.title}, compressed features",
            compressed=True,
            scaling="none",
            reason="there are many columns",
        )
    for scaling in TRIED if best.model != TREES else ():  # trees get no other scaling
        if best.compressed or scaling != best.scaling:
            title = f"{best.title}, features {SCALINGS[scaling].about}"
            yield replace(best, title=title, scaling=scaling, compressed=False)
