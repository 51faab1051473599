"""The Laplacian of a sheaf as a linear operator, from its maps at the ends of the edges."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.utils import remove_self_loops, to_undirected

from gread.graph.adjacency import ones_for
from gread.kernels.operators import permuted, product
from gread.kernels.pattern import Pattern, remember


class Ends(NamedTuple):
    """The ends of all edges, ordered by node; an edge between u and v has two ends."""

    pattern: Pattern
    """One entry per end: (u, v) for the end at u, [N, N]."""
    at: Pattern
    """Ends of every node, [N, E]."""
    pairs: Pattern
    """One row per end at u, with entries in columns u and N + v, [E, 2N]."""
    weight: Tensor
    """Weight of the edge of every end, [E]."""
    ones: Tensor
    """Ones for the entries of ``pairs``, [2E]."""

    def sum(self, values: Tensor) -> Tensor:
        """Compute the weighted sum over the ends of every node, [..., E] to [N, ...]."""
        found = product(self.at, self.weight, values.flatten(0, -2).T.contiguous())
        return found.unflatten(1, values.shape[:-1])

    def across(self, values: Tensor) -> Tensor:
        """Values at the other end of the same edge, [..., E].

        In a symmetric pattern, the column order lists the other ends.
        """
        order = self.pattern.order  # its own inverse
        return permuted(values.flatten(0, -2), 1, order, order).view_as(values)


def ends_of(edge_index: Tensor, edge_weight: Tensor | None, x: Tensor) -> Ends:
    """Ends of the undirected graph without self loops."""
    n = x.size(0)

    def found() -> Ends:
        given = ones_for(x, edge_index.size(1)) if edge_weight is None else edge_weight
        edges, weight = remove_self_loops(edge_index, given)
        edges, weight = to_undirected(edges, weight, n, reduce="mean")
        (u, v), count = edges, edges.size(1)
        end = torch.arange(count, device=u.device)
        pattern, order = Pattern.from_entries(u, v, (n, n))
        at, _ = Pattern.from_entries(u[order], end, (n, count))
        both = torch.cat([u[order], v[order] + n])
        pairs, _ = Pattern.from_entries(end.repeat(2), both, (count, 2 * n))
        return Ends(pattern, at, pairs, weight[order], weight.new_ones(2 * count))

    return remember(edge_index, ("sheaf", n, x.dtype), found, when=edge_weight is None)


class SheafLaplacian(NamedTuple):
    """Δ = D*^-½ (D − A) D*^-½, where A has the block F_uᵀ F_v at (u, v).

    Diagonal matrices are stored as their diagonals, with one axis less. A diagonal with equal
    entries is stored as one number. The axis of the ends comes last, so operations on millions of
    small matrices run on a few long rows.
    """

    ends: Ends
    degree: Tensor
    """D [N, d, d]."""
    root: Tensor
    """D*^-½ [N, d, d]."""
    blocks: Tensor
    """Blocks of A, [d, d, E]."""

    def __matmul__(self, x: Tensor) -> Tensor:
        """Compute Δ X, for X of shape [N, d, f]."""
        x = _times(self.root, x)
        return _times(self.root, _times(self.degree, x) - self._gather(x))

    def _gather(self, x: Tensor) -> Tensor:
        """Compute A X by one sparse product per entry of a block, without a tensor [E, d, f]."""
        pattern, entries, x = self.ends.pattern, self.blocks, x.transpose(0, 1)
        if entries.dim() == 2:
            return product(pattern, entries, x.contiguous()).transpose(0, 1)
        shape = entries.size(0), *x.shape
        found = product(pattern, entries.flatten(0, 1), x.expand(shape).flatten(0, 1))
        return found.view(shape).sum(1).transpose(0, 1)


def _times(matrices: Tensor, x: Tensor) -> Tensor:
    return matrices @ x if matrices.dim() == 3 else matrices.unsqueeze(-1) * x


class _TransposedTimes(torch.autograd.Function):
    """AᵀB of matrices [d, d, E]; batched products of libraries are optimized for larger ones."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        rows = zip(a.unsqueeze(2), b.unsqueeze(1), strict=True)
        found = torch.mul(*next(rows))
        for one, other in rows:
            found.addcmul_(one, other)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, b = (matrices.transpose(0, 1) for matrices in ctx.saved_tensors)
        of_a = _TransposedTimes.apply(b, grad.transpose(0, 1))
        return of_a, _TransposedTimes.apply(a, grad)


def diagonal_laplacian(maps: Tensor, ends: Ends) -> SheafLaplacian:
    """Δ of diagonal maps, [d, E]."""
    degree = ends.sum(maps.square())
    blocks = ends.weight * maps * ends.across(maps)
    return SheafLaplacian(ends, degree, (1 + degree).rsqrt(), blocks)


def bundle_laplacian(maps: Tensor, weight: Tensor, ends: Ends) -> SheafLaplacian:
    """Δ of orthogonal maps [d, d, E] times weights [1, E] that are the same at both ends."""
    degree = ends.sum(weight.square())
    blocks = _TransposedTimes.apply(ends.weight * weight.square() * maps, ends.across(maps))
    return SheafLaplacian(ends, degree, (1 + degree).rsqrt(), blocks)


def general_laplacian(maps: Tensor, ends: Ends) -> SheafLaplacian:
    """Δ of maps [d, d, E]."""
    degree = ends.sum(_TransposedTimes.apply(maps, maps))
    root = inverse_root(degree + torch.eye(maps.size(0), dtype=maps.dtype, device=maps.device))
    blocks = _TransposedTimes.apply(ends.weight * maps, ends.across(maps))
    return SheafLaplacian(ends, degree, root, blocks)


def fixed_laplacian(signs: Tensor, ends: Ends) -> SheafLaplacian:
    """D*^-½ (D − s A) D*^-½ of the graph itself for signs s, [k]."""
    degree = ends.sum(torch.ones_like(ends.weight).unsqueeze(0))
    blocks = signs.unsqueeze(-1) * ends.weight
    return SheafLaplacian(ends, degree, (1 + degree).rsqrt(), blocks)


def inverse_root(matrices: Tensor) -> Tensor:
    """M^-½ of symmetric matrices with eigenvalues of at least one, [N, d, d]."""
    short = matrices.dtype in (torch.float16, torch.bfloat16)  # not supported by LAPACK
    with torch.autocast(matrices.device.type, enabled=False):
        return _InverseRoot.apply(matrices.float() if short else matrices).to(matrices.dtype)


class _InverseRoot(torch.autograd.Function):
    """Inverse square root by eigenvalues, with a custom gradient.

    The gradient of ``eigh`` divides by λᵢ − λⱼ, and is NaN for equal eigenvalues, as at every node
    without neighbours. The gradient of M^-½ solves a Sylvester equation. In the eigenbasis, this is
    a product with the divided differences of λ^-½, in which the factor λᵢ − λⱼ cancels:

        (λᵢ^-½ − λⱼ^-½) / (λᵢ − λⱼ) = −1 / (√λᵢ √λⱼ (√λᵢ + √λⱼ))
    """

    @staticmethod
    def forward(ctx: Any, matrices: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(matrices)
        roots = values.clamp(min=1).sqrt()  # rounding may give less
        ctx.save_for_backward(roots, vectors)
        return (vectors / roots.unsqueeze(-2)) @ vectors.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        roots, vectors = ctx.saved_tensors
        one, other = roots.unsqueeze(-1), roots.unsqueeze(-2)
        inner = vectors.mT @ grad @ vectors / (one * other * (one + other))
        return -vectors @ inner @ vectors.mT
