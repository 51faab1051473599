"""Backends of the kernels: C on a CPU, Triton on a GPU, plain PyTorch otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from gread.kernels import reference
from gread.kernels.pattern import Rows
from gread.kernels.program import Matrix, Program, Ran
from gread.kernels.reference import Batch, Pair, Terms


class Backend(Protocol):
    """A module with all kernels; `gread.kernels.reference` defines each of them."""

    def gather(self, rows: Rows, weight: Tensor, y: Tensor, terms: Terms | None = None) -> Tensor:
        """Compute A y, or c₀ A y plus a polynomial in y and further matrices."""

    def pull(
        self, rows: Rows, weight: Tensor, g: Tensor, y: Tensor, terms: Terms
    ) -> tuple[Tensor, Tensor]:
        """Compute the backward pass of `gather`, with sums for its coefficients."""

    def dot(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute Σ x y over the nodes, as partial sums."""

    def edge_dots(self, rows: Rows, pairs: Sequence[Pair], out: Tensor | None = None) -> Tensor:
        """Compute left[i] · right[j] for every entry (i, j)."""

    def head_dots(self, rows: Rows, q: Tensor, k: Tensor) -> Tensor:
        """Compute q[i] · k[j] for every entry (i, j) and head."""

    def shares(
        self, rows: Rows, scores: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute the softmax of scores over every row, and its mean over the heads."""

    def attend(
        self, rows: Rows, q: Tensor, k: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute scaled dot-product attention for every head, and its mean."""

    def attend_back(self, rows: Rows, attention: Tensor, grad: Tensor) -> Tensor:
        """Compute the gradient of the scores of `attend` or `shares`."""

    def gather_heads(
        self, rows: Rows, weight: Tensor, y: Tensor, order: Tensor | None = None
    ) -> Tensor:
        """Compute A y for every head."""

    def dropout(self, x: Tensor, seed: Tensor, rate: float | Tensor) -> Tensor:
        """Set elements to zero by a hash of their index and a seed."""

    def draw(self, numbers: Tensor, place: Tensor, rate: Tensor) -> Tensor:
        """Take the next number of each member."""

    def mix(self, terms: Sequence[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
        """Compute the sum of terms, each multiplied by a matrix."""

    def mix_back(
        self, grad: Tensor, terms: Sequence[Tensor], weight: Tensor
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Compute the backward pass of `mix`."""

    def activate(
        self, h: Tensor, relu: bool, seed: Tensor | None, rate: float | Tensor, batch: Batch | None
    ) -> tuple[Tensor, Tensor | None]:
        """Compute batch normalization, activation and dropout."""

    def activate_back(
        self,
        grad: Tensor,
        h: Tensor,
        relu: bool,
        seed: Tensor | None,
        rate: float | Tensor,
        scales: Tensor | None,
        training: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the backward pass of `activate`."""

    def log_loss(self, x: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the weighted cross entropy as partial sums, and its gradient."""

    def score(
        self, x: Tensor, bias: Tensor | None, target: Tensor, sets: Tensor, counts: Tensor
    ) -> Tensor:
        """Compute sums of correct rows in every set, and the weighted cross entropy."""

    def run(
        self, program: Program, matrix: Matrix, inputs: Sequence[Tensor], coef: Tensor
    ) -> Ran | None:
        """Run a whole program; return None if it must run pass by pass."""


_plain = bool(os.environ.get("GREAD_PLAIN"))


@contextmanager
def plain_only() -> Iterator[None]:
    """Context manager that disables all fast paths: plain PyTorch, step by step, dense features.

    The environment variable ``GREAD_PLAIN=1`` does the same for a whole process.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60)
        >>> model = gread.GREAD(data.num_features, 4, 2).eval()
        >>> with gread.plain_only():
        ...     slow = model(data.x, data.edge_index)
        >>> torch.allclose(slow, model(data.x, data.edge_index), atol=1e-6)
        True
    """
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before


def fast() -> bool:
    """Return whether fast paths may be used; torch.compile uses the plain ones."""
    return not (_plain or torch.compiler.is_compiling())


def backend_for(x: Tensor) -> Backend:
    """Return the backend for the device and dtype of ``x``."""
    if fast() and x.dtype in (torch.float32, torch.float64):
        found = available(x.device.type)
        return reference if isinstance(found, Exception) else found
    return reference


@cache
def available(device: str) -> Backend | Exception:
    """Return the fast backend of a device type, or the reason why there is none."""
    try:
        if device == "cpu":
            from gread.kernels import cpu

            cpu.library()
            return cpu
        if device == "cuda":
            from gread.kernels import gpu

            return gpu
    except (ImportError, OSError) as error:
        return error
    return ImportError(f"there are no kernels for {device}")
