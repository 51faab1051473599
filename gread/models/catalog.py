"""What is known of a model besides its code: its title, its family and where it comes from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from torch import nn

from gread.registry import Registry

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
        reference: Who proposed it, and when.
        continuous: Whether the state evolves in continuous time, with ``model.evolve`` to see it.
    """

    build: Build
    title: str
    group: str
    reference: str
    continuous: bool = False

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The keyword-only arguments of ``build`` with their defaults.

        What a ``partial`` has fixed makes the model what it is, and is not among them.
        """
        fixed = self.build.keywords if isinstance(self.build, partial) else {}
        return {
            name: parameter.default
            for name, parameter in inspect.signature(self.build).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in fixed
        }


MODELS: Registry[ModelEntry] = Registry("model")


def model(
    name: str, *, title: str, group: str, reference: str, continuous: bool = False
) -> Callable[[B], B]:
    """Enters the class or function below it into the catalogue, and leaves it as it is."""

    def decorate(build: B) -> B:
        MODELS.add(name, ModelEntry(build, title, group, reference, continuous))
        return build

    return decorate
