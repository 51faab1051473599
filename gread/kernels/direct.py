"""Functions with a gradient, called with autograd or without it.

On a small graph the engine of autograd takes longer than a kernel. `Direct` calls a function and
its backward pass without the engine.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, Protocol

import torch
from torch import Tensor


class Apply(Protocol):
    """A way to call a `torch.autograd.Function`."""

    def __call__(self, function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
        """Return the result of its forward pass."""


def with_autograd(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """Call a function as part of the graph of autograd."""
    found: Tensor = function.apply(*arguments)
    return found


class Direct:
    """`Apply` for one call without autograd; it is also the context of the backward pass."""

    function: type[torch.autograd.Function]
    arguments: tuple[Any, ...]
    needs_input_grad: tuple[bool, ...]
    saved_tensors: tuple[Tensor, ...]

    def __call__(self, function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
        """Run the forward pass."""
        self.function, self.arguments = function, arguments
        self.needs_input_grad = tuple(
            isinstance(argument, Tensor) and argument.requires_grad for argument in arguments
        )
        found: Tensor = function.forward(self, *arguments)
        return found

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Store tensors for the backward pass."""
        self.saved_tensors = tensors

    def backward(self, grad: Tensor, *inputs: Tensor) -> list[Tensor]:
        """Return the gradient of every input, summed over the arguments that are this input."""
        grads = list(zip(self.function.backward(self, grad), self.arguments, strict=True))
        parts = (
            [one for one, other in grads if other is argument and one is not None]
            for argument in inputs
        )
        return [reduce(add, part) for part in parts]
