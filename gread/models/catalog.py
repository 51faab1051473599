"""The catalogue of models; models are imported at first use.

``models.toml`` has every shipped model. Its ``build`` is imported when it is first called, and its
hyperparameters are read from the source: listing models or filling in a run spec needs no torch.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from gread.base.errors import InputError
from gread.base.lazy import Reference
from gread.base.registry import Registry
from gread.base.toml import read_toml
from gread.dynamics.reactions import REACTIONS
from gread.dynamics.tableau import Integration

if TYPE_CHECKING:
    from torch import nn

Build: TypeAlias = "Callable[..., nn.Module]"
B = TypeVar("B", bound=Build)
Value: TypeAlias = bool | int | float | str | None
Hyper: TypeAlias = Mapping[str, Value]

NUM_NODES = "num_nodes"


class GraphSize(NamedTuple):
    """Numbers of nodes, edges and features of a graph, and of features that are not zero."""

    nodes: int
    edges: int
    features: int
    nonzeros: int


def integration_of(hyper: Hyper) -> Integration:
    """The integration of these hyperparameters; one Euler step if they have none."""
    time, step_size = (float(hyper.get(name, 1.0) or 0.0) for name in ("time", "step_size"))
    return Integration(time, step_size, str(hyper.get("solver", "euler")))


def flow_memory(hyper: Hyper, size: GraphSize) -> int:
    """Bytes of a member that integrates a diffusion: states, operator, features, parameters."""
    width = int(hyper["hidden_channels"] or 0)
    integration = integration_of(hyper)
    steps = integration.num_steps
    states = 20 + (steps if steps <= 16 else 3 * math.isqrt(steps))
    operator = 0 if hyper.get("adjacency") == "original" else 20 * size.edges
    parameters = 8 * (size.features + 3 * width) * width
    if not hyper.get("linear", True):  # the operator of every evaluation is kept
        states += 3 * integration.evaluations
        operator += 4 * size.edges * int(hyper.get("heads", 4) or 0) * integration.evaluations
    return 4 * (size.nodes * width * states + operator + 4 * size.nonzeros + parameters)


def layered_memory(hyper: Hyper, size: GraphSize) -> int:
    """Bytes of a member with ``num_steps`` layers: its states, features and parameters."""
    width, layers = (int(hyper[name] or 0) for name in ("hidden_channels", "num_steps"))
    parameters = 8 * (size.features + 5 * layers * width) * width
    return 4 * (size.nodes * width * (20 + 12 * layers) + 4 * size.nonzeros + parameters)


MEMORY = {"flow": flow_memory, "layered": layered_memory}
"""Memory estimates by their name in ``models.toml``."""


@dataclass(frozen=True)
class Population:
    """Hyperparameters that may differ between members of a population.

    Attributes:
        varying: Hyperparameters that may differ.
        varying_if_linear: Further hyperparameters that may differ unless ``linear`` is false. If it
            is false, the operator changes with the state, and all members take the same steps.
        memory: Estimate of the bytes that a member keeps for the backward pass.
    """

    varying: tuple[str, ...]
    varying_if_linear: tuple[str, ...]
    memory: Callable[[Hyper, GraphSize], int] = flow_memory

    def own(self, hyper: Hyper) -> tuple[str, ...]:
        """Names of the hyperparameters that may differ from ``hyper`` in a population.

        Coefficients of kind ``"matrix"`` are excluded, because other kinds have another shape.
        """
        linear = hyper.get("linear", True)
        names = (*self.varying, *self.varying_if_linear) if linear else self.varying
        return tuple(name for name in names if hyper.get(name) != "matrix")


@dataclass(frozen=True)
class ModelEntry:
    """A model of the catalogue.

    Attributes:
        build: Class or function, called with
            ``(in_channels, hidden_channels, out_channels, *, ...)``. The keyword-only arguments are
            the model's hyperparameters. The module it returns is called with
            ``(x, edge_index, edge_weight=None)`` and returns logits [N, classes].
        title: Name in the paper's tables.
        group: Classical, heterophily, oversmoothing, continuous, GREAD, or tuned: classical
            networks with residual, normalization and depth.
        reference: Authors, venue and year.
        continuous: Whether the state evolves in continuous time; ``model.evolve`` returns it.
        reaction: Whether the state evolves by a reaction in addition to diffusion.
        structure: A name of ``STRUCTURES``: tensors computed once from the graph, before training.
            ``forward`` takes them as keyword-only arguments with the names of the tensors. Without
            them, the module computes them or does not use them.
        family: Name of the search space and of the settings that several models share; by default
            each model has separate ones.
        shardable: Whether it can be trained over several processes, which requires access to other
            nodes through one operator only.
        learns: Names of records of learned parameters, besides those of every continuous model.
        diagnosed: Hyperparameters that the diagnosis of a graph recommends.
        population: How it is trained in populations; None if it cannot be.
        added: Hyperparameters that the model gained after runs were stored, each with the value
            that means "as before". A run spec leaves them out at that value, so that stored runs
            keep their keys.
        transductive_if: A hyperparameter that enables weights for each node; empty if none does.
    """

    build: Build
    title: str
    group: str
    reference: str
    continuous: bool = False
    reaction: bool = False
    structure: str | None = None
    family: str = ""
    shardable: bool = False
    learns: tuple[str, ...] = ()
    diagnosed: tuple[str, ...] = ()
    population: Population | None = None
    added: Hyper = field(default_factory=dict)
    transductive_if: str = ""

    @property
    def fixed(self) -> dict[str, Any]:
        """Fixed arguments of ``build``."""
        return dict(self.build.fixed) if isinstance(self.build, Reference) else {}

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The keyword-only arguments of ``build`` with their defaults.

        Fixed arguments are excluded, and so is ``num_nodes``, which the graph determines.
        """
        others = {NUM_NODES, *self.fixed}
        return {name: default for name, default in self._keywords.items() if name not in others}

    @property
    def records(self) -> tuple[str, ...]:
        """Names of ``gread.runs.RECORDS`` to store with every run."""
        return (*(("energy", "evaluations") if self.continuous else ()), *self.learns)

    def transductive(self, hyper: Hyper) -> bool:
        """Whether the model has weights for each node and is bound to one graph."""
        if NUM_NODES not in self._keywords:
            return False
        chosen = {**self.hyperparameters, **self.fixed, **hyper}
        return bool(chosen.get(self.transductive_if, True))

    def divisible(self, hyper: Hyper) -> bool:
        """Whether it can be trained on a partitioned graph; means over nodes are then per part."""
        typed = int(hyper.get("num_relations", 1) or 1) > 1  # types belong to edges, not to nodes
        return self.structure is None and not self.transductive(hyper) and not typed

    def check_parts(self, parts: int, hyper: Hyper) -> None:
        """Require one part if the model needs the whole graph."""
        if parts > 1 and not self.divisible(hyper):
            raise InputError(f"parts must be 1 for {self.title}, which needs the whole graph")

    @property
    def year(self) -> int | None:
        """Year at the end of the reference."""
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
        """Build the model for a graph with the given number of nodes, which some models need."""
        if self.transductive(hyper):
            hyper[NUM_NODES] = num_nodes
        return self.build(in_channels, hidden_channels, out_channels, **hyper)

    @cached_property
    def _keywords(self) -> dict[str, Any]:
        if isinstance(self.build, Reference):
            return self.build.keywords
        return {
            name: parameter.default
            for name, parameter in inspect.signature(self.build).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }


MODELS: Registry[ModelEntry] = Registry("model")
"""Models by name; an entry has title, group, reference and hyperparameters."""


def model(name: str, *, title: str, group: str, reference: str, **about: Any) -> Callable[[B], B]:
    """Decorator that registers a class or function in the catalogue.

    Args:
        name: Name in commands and run specs.
        title: Name in tables.
        group: Group, as in `ModelEntry`.
        reference: Authors, venue and year.
        about: Any other attributes of `ModelEntry`.
    """

    def decorate(build: B) -> B:
        MODELS.add(name, ModelEntry(build, title, group, reference, **about))
        return build

    return decorate


def _enter(name: str, row: Mapping[str, Any], **fixed: Any) -> None:
    """Add a row of the table to the catalogue."""
    about: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
    }
    build = Reference(f"gread.models.{about.pop('build')}", **about.pop("fixed", {}), **fixed)
    if "varying" in about:
        varying = about.pop("varying"), about.pop("varying_if_linear")
        about["population"] = Population(*varying, MEMORY[about.pop("memory", "flow")])
    MODELS.add(name, ModelEntry(build, **about))


def _enter_gread(row: Mapping[str, Any], reaction: str, _: object) -> None:
    """Add the model of a reaction, including reactions that are registered later."""
    title = row["title"].replace("*", reaction.upper())
    _enter(f"gread-{reaction}", {**row, "title": title}, reaction=reaction)


for _name, _row in (read_toml("models", "models.toml") or {}).items():
    if _name == "gread-*":
        REACTIONS.follow(partial(_enter_gread, _row))
    else:
        _enter(_name, _row)
