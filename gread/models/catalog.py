"""The models: what is known of each besides its code, without importing it.

The table below has every shipped model. Its ``build`` is imported when it is first called, and its
hyperparameters are read from the source: listing models or filling in a run spec needs no torch.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.dynamics.reactions import REACTIONS
from gread.dynamics.tableau import Integration

if TYPE_CHECKING:
    from torch import nn

Build: TypeAlias = "Callable[..., nn.Module]"
B = TypeVar("B", bound=Build)
Value: TypeAlias = bool | int | float | str | None
Hyper: TypeAlias = Mapping[str, Value]

NUM_NODES = "num_nodes"


@dataclass(frozen=True, eq=False)
class Deferred:
    """A class or function that is imported when it is first called.

    Attributes:
        target: ``"module:name"``.
        fixed: Arguments that make the model what it is, and are no hyperparameters.
    """

    target: str
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *sizes: Any, **hyper: Any) -> nn.Module:
        """The model."""
        built: nn.Module = self.imported(*sizes, **{**self.fixed, **hyper})
        return built

    @cached_property
    def imported(self) -> Any:
        """The class or function."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)

    @cached_property
    def keywords(self) -> dict[str, Any]:
        """Its keyword-only arguments with their defaults, from the source."""
        module, _, name = self.target.partition(":")
        found = _definitions(module)[name]
        if isinstance(found, ast.ClassDef):
            found = next(
                part
                for part in found.body
                if isinstance(part, ast.FunctionDef) and part.name == "__init__"
            )
        return {
            argument.arg: inspect.Parameter.empty if default is None else ast.literal_eval(default)
            for argument, default in zip(found.args.kwonlyargs, found.args.kw_defaults, strict=True)
        }


@lru_cache
def _definitions(module: str) -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """The classes and functions of a module, which is not imported."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    kinds = ast.ClassDef, ast.FunctionDef
    return {part.name: part for part in tree.body if isinstance(part, kinds)}


class GraphSize(NamedTuple):
    """Numbers of nodes, edges and features of a graph, and of features that are not zero."""

    nodes: int
    edges: int
    features: int
    nonzeros: int


@dataclass(frozen=True)
class Population:
    """What members of a population may differ in; a model without one is trained alone.

    Attributes:
        varying: Hyperparameters of which each member may have its own.
        varying_if_linear: These too, unless ``linear`` is false: then the operator changes with
            the state, and all members take the same steps.
        memory: Estimate of the bytes that a member keeps for the backward pass.
    """

    varying: tuple[str, ...]
    varying_if_linear: tuple[str, ...]
    memory: Callable[[Hyper, GraphSize], int]

    def own(self, hyper: Hyper) -> tuple[str, ...]:
        """Hyperparameters that may differ from those of a member with these."""
        linear = hyper.get("linear", True)
        return (*self.varying, *self.varying_if_linear) if linear else self.varying


def integration_of(hyper: Hyper) -> Integration:
    """The integration that hyperparameters ask for; one Euler step where they name none."""
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
        family: Name of the search space and of the settings that models share; by default each has
            its own.
        shardable: Whether it can be trained over several processes: all it sees of other nodes
            comes through one operator.
        learns: Records of what it has learned, besides those of every continuous model.
        diagnosed: Hyperparameters that the diagnosis of a graph recommends.
        population: How it is trained in populations; None if it cannot be.
        added: Hyperparameters that the model gained after runs were stored, each with the value
            that means "as before". A run spec leaves them out at that value, so that stored runs
            keep their keys.
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

    @property
    def fixed(self) -> dict[str, Any]:
        """Arguments of ``build`` that make the model what it is."""
        return dict(self.build.fixed) if isinstance(self.build, Deferred) else {}

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The keyword-only arguments of ``build`` with their defaults.

        Those that are fixed are not among them; nor is ``num_nodes``, which the graph decides.
        """
        others = {NUM_NODES, *self.fixed}
        return {name: default for name, default in self._keywords.items() if name not in others}

    @property
    def records(self) -> tuple[str, ...]:
        """Names of ``gread.runs.RECORDS`` that are worth keeping of every run."""
        return (*(("energy", "evaluations") if self.continuous else ()), *self.learns)

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
    def _keywords(self) -> dict[str, Any]:
        if isinstance(self.build, Deferred):
            return self.build.keywords
        return {
            name: parameter.default
            for name, parameter in inspect.signature(self.build).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }


MODELS: Registry[ModelEntry] = Registry("model")


def model(name: str, *, title: str, group: str, reference: str, **about: Any) -> Callable[[B], B]:
    """Enter the class or function below it into the catalogue, and leave it as it is.

    Args:
        name: In commands and run specs.
        title: In tables.
        group: As in `ModelEntry`, of which ``about`` may have every other attribute.
        reference: Who proposed it.
        about: Further attributes.
    """

    def decorate(build: B) -> B:
        MODELS.add(name, ModelEntry(build, title, group, reference, **about))
        return build

    return decorate


RATES = ("input_dropout", "dropout")
STEPS = ("time", "step_size")

CLASSICAL, HETEROPHILY = "classical", "heterophily"
OVERSMOOTHING, CONTINUOUS = "oversmoothing", "continuous"


def _at(place: str, **fixed: Any) -> Deferred:
    return Deferred(f"gread.models.{place}", fixed)


def _gread(name: str, reaction: object) -> None:
    """Every reaction is a model, one that a user registers later too."""
    MODELS.add(
        f"gread-{name}",
        ModelEntry(
            _at("gread:GREAD", reaction=name),
            f"GREAD-{name.upper()}",
            "GREAD",
            "Choi et al., ICML 2023",
            continuous=True,
            reaction=True,
            family="gread",
            shardable=True,
            learns=("coefficients",),
            diagnosed=("adjacency", "time", "solver"),
            population=Population(
                (*RATES, "alpha", "beta", "normalization", "self_loops", "output_activation"),
                STEPS,
                flow_memory,
            ),
        ),
    )


_SHIPPED: dict[str, ModelEntry | None] = {
    "acm-gcn": ModelEntry(
        _at("acm_gcn:ACMGCN"), "ACM-GCN", HETEROPHILY, "Luan et al., NeurIPS 2022"
    ),
    "acmp": ModelEntry(
        *(_at("acmp:ACMP"), "ACMP", CONTINUOUS, "Wang et al., ICLR 2023"),
        continuous=True,
        reaction=True,
    ),
    "blend": ModelEntry(
        *(_at("blend:BLEND"), "BLEND", CONTINUOUS, "Chamberlain et al., NeurIPS 2021"),
        continuous=True,
        structure="positions",
    ),
    "cgnn": ModelEntry(
        *(_at("cgnn:CGNN"), "CGNN", CONTINUOUS, "Xhonneux et al., ICML 2020"), continuous=True
    ),
    "fagcn": ModelEntry(_at("fagcn:FAGCN"), "FA-GCN", HETEROPHILY, "Bo et al., AAAI 2021"),
    "mlp": ModelEntry(_at("convolutional:mlp"), "MLP", CLASSICAL, "no graph at all"),
    "gcn": ModelEntry(_at("convolutional:gcn"), "GCN", CLASSICAL, "Kipf and Welling, ICLR 2017"),
    "graphsage": ModelEntry(
        _at("convolutional:graphsage"), "GraphSAGE", CLASSICAL, "Hamilton et al., NeurIPS 2017"
    ),
    "sgc": ModelEntry(_at("convolutional:sgc"), "SGC", CLASSICAL, "Wu et al., ICML 2019"),
    "chebnet": ModelEntry(
        _at("convolutional:chebnet"), "ChebNet", CLASSICAL, "Defferrard et al., NeurIPS 2016"
    ),
    "pairnorm": ModelEntry(
        _at("convolutional:pairnorm"), "PairNorm", OVERSMOOTHING, "Zhao and Akoglu, ICLR 2020"
    ),
    "gat": ModelEntry(_at("gat:gat"), "GAT", CLASSICAL, "Veličković et al., ICLR 2018"),
    "gcnii": ModelEntry(_at("gcnii:GCNII"), "GCNII", OVERSMOOTHING, "Chen et al., ICML 2020"),
    "gde": ModelEntry(_at("gde:GDE"), "GDE", CONTINUOUS, "Poli et al., 2019", continuous=True),
    "geom-gcn": ModelEntry(
        *(_at("geom_gcn:GeomGCN"), "Geom-GCN", HETEROPHILY, "Pei et al., ICLR 2020"),
        structure="relations",
    ),
    "ggcn": ModelEntry(_at("ggcn:GGCN"), "GGCN", HETEROPHILY, "Yan et al., ICDM 2022"),
    "glognn": ModelEntry(
        _at("glognn:GloGNN", weighted_classes=False),
        *("GloGNN", HETEROPHILY, "Li et al., ICML 2022"),
    ),
    "glognn++": ModelEntry(
        _at("glognn:GloGNN", weighted_classes=True),
        *("GloGNN++", HETEROPHILY, "Li et al., ICML 2022"),
    ),
    "gpr-gnn": ModelEntry(_at("gpr_gnn:GPRGNN"), "GPR-GNN", HETEROPHILY, "Chien et al., ICLR 2021"),
    "graff": ModelEntry(
        *(_at("graff:GRAFF"), "GRAFF", CONTINUOUS, "Di Giovanni et al., TMLR 2023"),
        continuous=True,
    ),
    "grand": ModelEntry(
        *(_at("grand:GRAND"), "GRAND", CONTINUOUS, "Chamberlain et al., ICML 2021"),
        continuous=True,
        population=Population(RATES, STEPS, flow_memory),
    ),
    "grand++": ModelEntry(
        _at("grand:GRAND", source="trusted"),
        *("GRAND++", CONTINUOUS, "Thorpe et al., ICLR 2022"),
        continuous=True,
    ),
    "gcon-gcn": ModelEntry(
        _at("graphcon:gcon_gcn"), "GCON-GCN", OVERSMOOTHING, "Rusch et al., ICML 2022"
    ),
    "gcon-gat": ModelEntry(
        _at("graphcon:gcon_gat"), "GCON-GAT", OVERSMOOTHING, "Rusch et al., ICML 2022"
    ),
    "gread-*": None,  # one of each reaction
    "h2gcn": ModelEntry(
        *(_at("h2gcn:H2GCN"), "H2GCN", HETEROPHILY, "Zhu et al., NeurIPS 2020"),
        structure="two-hop",
    ),
    "jknet": ModelEntry(_at("jknet:JKNet"), "JKNet", OVERSMOOTHING, "Xu et al., ICML 2018"),
    "linkx": ModelEntry(_at("linkx:LINKX"), "LINKX", HETEROPHILY, "Lim et al., NeurIPS 2021"),
    "mixhop": ModelEntry(
        _at("mixhop:MixHop"), "MixHop", HETEROPHILY, "Abu-El-Haija et al., ICML 2019"
    ),
    **{
        f"sheaf-{maps}": ModelEntry(
            _at("sheaf.model:NeuralSheafDiffusion", maps=maps),
            *(title, CONTINUOUS, "Bodnar et al., NeurIPS 2022"),
        )
        for maps, title in (
            ("diag", "Sheaf-diag"),
            ("bundle", "Sheaf"),
            ("general", "Sheaf-general"),
        )
    },
    "wrgat": ModelEntry(
        *(_at("wrgat:WRGAT"), "WRGAT", HETEROPHILY, "Suresh et al., KDD 2021"),
        structure="multigraph",
    ),
}
for _name, _entry in _SHIPPED.items():
    if _entry is None:
        REACTIONS.follow(_gread)
    else:
        MODELS.add(_name, _entry)
