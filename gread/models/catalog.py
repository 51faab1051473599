"""What is known of a model besides its code: its title, its family and where it comes from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

from torch import nn

from gread.base.errors import InputError
from gread.base.registry import Registry

Build = Callable[..., nn.Module]
B = TypeVar("B", bound=Build)


@dataclass(frozen=True)
class ModelEntry:
    """A model of the catalogue.

    Attributes:
        build: Called with ``(in_channels, hidden_channels, out_channels, *, ...)``; the
            keyword-only arguments are the model's hyperparameters. The module it returns is called
            with ``(x, edge_index, edge_weight=None)`` and gives logits [N, classes].
        title: As in the paper's tables.
        group: Classical, heterophily, oversmoothing, continuous or GREAD.
        reference: Who proposed it, where, and in what year.
        continuous: Whether the state evolves in continuous time, with ``model.evolve`` to see it.
        reaction: Whether something besides diffusion drives it.
        structure: A name of ``STRUCTURES``: what is computed from the graph once, before training.
            The module takes it as keyword-only arguments of ``forward``, by the names of the
            tensors; without them it computes them itself, or does without.
    """

    build: Build
    title: str
    group: str
    reference: str
    continuous: bool = False
    reaction: bool = False
    structure: str | None = None

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The keyword-only arguments of ``build`` with their defaults.

        What a ``partial`` has fixed makes the model what it is, and is not among them; nor is
        ``num_nodes``, which the graph decides.
        """
        fixed = self.build.keywords if isinstance(self.build, partial) else {}
        return {
            name: parameter.default
            for name, parameter in self._keywords.items()
            if name not in fixed and name != NUM_NODES
        }

    @property
    def transductive(self) -> bool:
        """Whether it has weights for each node, so that it is of one graph and no other."""
        return NUM_NODES in self._keywords

    @property
    def divisible(self) -> bool:
        """Whether it can be trained on parts of a graph; means over nodes are then of a part."""
        return self.structure is None and not self.transductive

    def check_parts(self, parts: int) -> None:
        """Requires that so many parts are no more than one, if it needs the whole graph."""
        if parts > 1 and not self.divisible:
            raise InputError(f"parts must be 1 for {self.title}, which needs the whole graph")

    @property
    def year(self) -> int | None:
        """Of the reference, which ends with it."""
        word = self.reference.split()[-1]
        return int(word) if word.isdigit() else None

    def make(
        self,
        in_channels: int,
        hidden_channels: Any,
        out_channels: int,
        *,
        num_nodes: int,
        **hyper: Any,
    ) -> nn.Module:
        """Builds the model for a graph of so many nodes, which not every model asks for."""
        if self.transductive:
            hyper[NUM_NODES] = num_nodes
        return self.build(in_channels, hidden_channels, out_channels, **hyper)

    @cached_property
    def _keywords(self) -> dict[str, inspect.Parameter]:
        return {
            name: parameter
            for name, parameter in inspect.signature(self.build).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }


NUM_NODES = "num_nodes"


MODELS: Registry[ModelEntry] = Registry(
    "model",
    modules=[
        f"gread.models.{name}"
        for name in (
            *(
                "acm_gcn",
                "acmp",
                "blend",
                "cgnn",
                "fagcn",
                "gat",
                "gcnii",
                "gde",
                "geom_gcn",
                "ggcn",
            ),
            *("glognn", "gpr_gnn", "graff", "grand", "graphcon", "gread", "h2gcn", "jknet"),
            *("linkx", "mixhop", "sheaf", "convolutional", "wrgat"),
        )
    ],
)


def model(
    name: str,
    *,
    title: str,
    group: str,
    reference: str,
    continuous: bool = False,
    reaction: bool = False,
    structure: str | None = None,
) -> Callable[[B], B]:
    """Enters the class or function below it into the catalogue, and leaves it as it is."""

    def decorate(build: B) -> B:
        entry = ModelEntry(build, title, group, reference, continuous, reaction, structure)
        MODELS.add(name, entry)
        return build

    return decorate
