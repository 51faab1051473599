"""Candidates for a user's graph: models with settings and encodings, and variants of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from torch import Tensor, nn

from gread.base.errors import InputError
from gread.base.toml import read_toml
from gread.estimator.trees import Trees
from gread.models.catalog import MODELS
from gread.runs.presets import split_settings
from gread.runs.spec import HIDDEN_CHANNELS, Value
from gread.tables.scaling import rescaled

PROPAGATION = "label-propagation"
TREES = "boosted-trees"
BLIND = ("mlp", TREES)
"""Models that use no edges."""

RELATIONS = "num_relations"
"""The hyperparameter of models with an operator for each type of edges."""


@dataclass(frozen=True)
class Candidate:
    """A candidate: a model with its settings and encoding.

    Attributes:
        title: Title for readers.
        model: A name of ``gread.MODELS``, label propagation or trees.
        settings: Hyperparameters of the model and of the training.
        reason: Reason to try it.
        directed: Whether it uses the directions of edges.
        typed: Whether it uses the types of edges.
        scaling: Scaling of all its features, a name of `gread.tables.SCALINGS`.
        compressed: Whether it uses the principal components of the features in their place.
        smooth: Whether its predictions are corrected and smoothed by those of neighbours.
        balanced: Whether all classes have equal weight in its loss, regardless of their sizes.
        neighbours: Whether `gread.estimator.neighbourhood.surroundings` are among its features. Its
            network must not use edges: a path of two edges would lead back to its target.
        positions: Whether `gread.graph.structure.spectral.spectral_positions` are among its
            features.
        columns: Number of features of its network, once it is trained.
    """

    title: str
    model: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    reason: str = ""
    directed: bool = False
    typed: bool = False
    scaling: str = "none"
    compressed: bool = False
    smooth: bool = False
    balanced: bool = False
    neighbours: bool = False
    positions: bool = False
    columns: int | None = None

    def __post_init__(self) -> None:
        if self.neighbours and self.model not in BLIND:
            raise InputError(
                f"neighbours must be features of {' or '.join(BLIND)}, got {self.model!r}"
            )
        if self.typed and not self.can_be_typed():
            raise InputError(f"typed must be false for {self.model!r}, which has one operator")

    def can_be_typed(self) -> bool:
        """Whether its features or its network can distinguish types of edges."""
        return self.neighbours or takes_types(self.model)

    def features(self, x: Tensor, components: Tensor | None) -> Tensor:
        """Features as the candidate uses them: scaled, or their principal components.

        Args:
            x: Features.
            components: Principal components of the features of the training graph, see
                `gread.estimator.compression.components`.
        """
        if not self.compressed:
            return rescaled(x, self.scaling)
        assert components is not None
        return x @ components.to(x.device)

    @property
    def view(self) -> tuple[str | bool, ...]:
        """Key that is equal for candidates with the same features and edges."""
        features = self.scaling, self.compressed, self.neighbours, self.positions
        return *features, self.directed, self.typed

    @property
    def without_graph(self) -> bool:
        """Whether the candidate uses no edges."""
        return self.model in BLIND and not (self.smooth or self.neighbours or self.positions)

    def transductive(self) -> bool:
        """Whether the candidate can predict only the training graph, possibly with added nodes."""
        return self.smooth or self.neighbours or self.model == PROPAGATION or self.bound()

    def bound(self) -> bool:
        """Whether the candidate is tied to the nodes of its graph and cannot predict added nodes.

        Positions tie it, because added nodes change the eigenvectors of the graph.
        """
        if self.positions or self.model in (PROPAGATION, TREES):
            return self.positions
        return MODELS[self.model].transductive(split_settings(self.model, self.settings)[0])


def takes_types(model: str) -> bool:
    """Whether a model of the catalogue may have an operator for each type of edges."""
    return model in MODELS and RELATIONS in MODELS[model].hyperparameters


@cache
def portfolio() -> tuple[Candidate, ...]:
    """Candidates of ``portfolio.toml``."""
    table = read_toml("estimator", "portfolio.toml") or {}
    return tuple(Candidate(**row) for row in table["candidates"])


def built(candidate: Candidate, features: int, outputs: int, nodes: int) -> nn.Module:
    """Build the untrained network of a candidate. The number of trees defaults to 1."""
    if candidate.model == TREES:
        sizes: dict[str, Any] = dict(candidate.settings)
        return Trees(outputs, sizes.get("trees", 1), sizes["leaves"], sizes["depth"])
    own, _ = split_settings(candidate.model, candidate.settings)
    hyper: dict[str, Any] = {"hidden_channels": HIDDEN_CHANNELS} | own
    widths = candidate.columns or features, hyper.pop("hidden_channels"), outputs
    return MODELS[candidate.model].make(*widths, num_nodes=nodes, **hyper)


CHOICES = {"hidden_channels": (64, 128, 256), "num_steps": (1, 2, 3, 4), "leaves": (8, 16, 31, 63)}
"""Values of settings that are tried around the best."""


def moved(best: Candidate, random: np.random.Generator) -> Candidate:
    """Return a candidate with random settings close to those of the best."""
    settings = dict(best.settings)
    for name in ("lr",) if best.model == TREES else ("lr", "weight_decay"):
        settings[name] = float(
            f"{float(settings.get(name) or 1e-4) * 2.0 ** random.uniform(-1.5, 1.5):.3g}"
        )
    for name in ("dropout", "input_dropout"):
        if name in settings:
            moved = float(settings[name] or 0.0) + random.uniform(-0.2, 0.2)
            settings[name] = round(min(0.8, max(0.0, moved)), 2)
    for name, choices in CHOICES.items():
        if name in settings and random.uniform() < 0.4:
            settings[name] = int(random.choice(choices))
    title = best.title.removesuffix(", tuned")
    return replace(
        best, title=f"{title}, tuned", settings=settings, reason="settings around the best"
    )
