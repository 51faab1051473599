"""Attention over the edges as the operator Ā of a diffusion, in the variants of GRAND."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch_geometric.nn.inits import reset

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.dynamics.integrate import VectorField
from gread.dynamics.reactions import source_term
from gread.dynamics.solve import ReactionDiffusion
from gread.graph.adjacency import ExplainedEdges, Queries, edges_of
from gread.graph.operator import Adjacency
from gread.kernels.operators import attention, scores, shares
from gread.kernels.pattern import Pattern
from gread.models.layers import Gate
from gread.models.stacking import PartByPart

Widths = Sequence[int]
SCORES: Registry[Callable[[Widths, int, int], nn.Module]] = Registry("attention")
"""Constructors, called with the widths of the parts of a state, the number of heads and the total
width of the queries."""


@SCORES.register("scaled-dot")
class DotScores(PartByPart):
    """q · k / √d_k."""

    def __init__(self, widths: Widths, heads: int, attention_channels: int):
        super().__init__()
        self.queries = Queries(sum(widths), heads, attention_channels)

    def forward(self, h: Tensor, pattern: Pattern) -> Tensor:
        """Compute the scores, [E, heads]."""
        q, k = self.queries.queries_and_keys(h)
        return scores(pattern, q * q.size(-1) ** -0.5, k)


@SCORES.register("cosine")
class CosineScores(DotScores):
    """q · k / (‖q‖ ‖k‖)."""

    def forward(self, h: Tensor, pattern: Pattern) -> Tensor:
        """Compute the scores, [E, heads]."""
        q, k = self.queries.queries_and_keys(h)
        return scores(pattern, normalize(q, dim=-1), normalize(k, dim=-1))


@SCORES.register("exponential")
class KernelScores(nn.Module):
    """Product over parts of the state of s² exp(−‖q − k‖² / 2ℓ²), with separate parameters."""

    def __init__(self, widths: Widths, heads: int, attention_channels: int):
        super().__init__()
        self.widths = list(widths)
        self.queries = nn.ModuleList(Queries(w, heads, attention_channels) for w in widths)
        self.scale = nn.Parameter(torch.empty(len(self.widths)))
        self.length = nn.Parameter(torch.empty(len(self.widths)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the queries, and set s = ℓ = 1."""
        reset(self.queries)
        nn.init.ones_(self.scale)
        nn.init.ones_(self.length)

    def forward(self, h: Tensor, pattern: Pattern) -> Tensor:
        """Compute the scores, [E, heads]."""
        squares = []
        for own, part, length in zip(
            self.queries, h.split(self.widths, -1), self.length, strict=True
        ):
            q, k = own.queries_and_keys(part)  # type: ignore[operator]
            squares.append(_squared(pattern, q, k) / (2 * length**2))
        return self.scale.square().prod() * torch.exp(-torch.stack(squares).sum(0))


def _squared(pattern: Pattern, q: Tensor, k: Tensor) -> Tensor:
    """‖q[i] − k[j]‖² = ‖q‖² − 2 q · k + ‖k‖² as one dot product with two more channels."""
    one = torch.ones_like(q[..., :1])
    left = torch.cat([-2 * q, q.square().sum(-1, keepdim=True), one], -1)
    right = torch.cat([k, one, k.square().sum(-1, keepdim=True)], -1)
    return scores(pattern, left, right).clamp(min=0)


NORMALIZERS: Registry[Callable[[Tensor, Tensor | None], Tensor]] = Registry("normalizer")
"""Functions of scores [E, heads] and weights [E] that return the input of the softmax. For several
members, both have a leading axis."""


@NORMALIZERS.register("softmax")
def softmax(score: Tensor, weight: Tensor | None) -> Tensor:
    """Return the scores unchanged."""
    return score


@NORMALIZERS.register("squareplus")
def squareplus(score: Tensor, weight: Tensor | None) -> Tensor:
    """log((v + √(v² + 4)) / 2) with v = score − maximum; low scores keep some weight.

    Entries of zero weight are excluded from the maximum.
    """
    counts = score if weight is None else score.masked_fill(weight.unsqueeze(-1) == 0, -torch.inf)
    return _LogSquareplus.apply(score - counts.amax((-2, -1), keepdim=True))


class _LogSquareplus(torch.autograd.Function):
    """−log((√(v² + 4) − v) / 2), which avoids cancellation for negative v."""

    @staticmethod
    def forward(ctx: Any, v: Tensor) -> Tensor:
        root = v.square().add_(4).sqrt_()
        ctx.save_for_backward(root)
        return (root - v).mul_(0.5).log_().neg_()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        return grad / root


SIDES = ("row", "column")


class EdgeAttention(PartByPart):
    """Ā[i, j]: mean over heads of normalized attention on the edges, with self loops.

    Args:
        widths: Widths of the parts of the state.
        attention: ``"scaled-dot"``, ``"cosine"`` or ``"exponential"``.
        normalizer: ``"softmax"`` or ``"squareplus"``.
        normalization: ``"row"`` or ``"column"``: rows or columns of Ā sum to one.
        heads: Number of heads.
        attention_channels: Total width of the queries.
    """

    def __init__(
        self,
        widths: Widths,
        attention: str,
        normalizer: str,
        normalization: str,
        heads: int,
        attention_channels: int,
    ):
        super().__init__()
        if normalization not in SIDES:
            raise InputError(
                f"unknown normalization {normalization!r}; choose from: {', '.join(SIDES)}"
            )
        self.scores = SCORES[attention](widths, heads, attention_channels)
        self.normalize = NORMALIZERS[normalizer]
        self.by_row = normalization == "row"
        self.explained = ExplainedEdges()

    def forward(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Adjacency:
        """Compute Ā from the graph and a state; edge weights multiply the exponentials."""
        edges = edges_of(edge_index, edge_weight, h, 1.0)
        weight = None if edge_weight is None else edges.weight
        if type(self.scores) is DotScores and self.normalize is softmax and self.by_row:
            q, k = self.scores.queries.queries_and_keys(h)
            found = attention(edges.pattern, q, k, weight)  # one kernel
        else:
            score = self.normalize(self.scores(h, edges.pattern), weight)
            found = shares(edges.pattern, score, weight, self.by_row)
        return Adjacency(edges.pattern, self.explained(found, edges))


class AttentiveDiffusion(PartByPart):
    """f(H) = σ(α) (Ā − I) H + β S, with Ā computed once from H(0) or at every t from H(t).

    Args:
        attention: Module that computes Ā.
        linear: Whether Ā is computed once from H(0).
    """

    def __init__(self, attention: EdgeAttention, linear: bool):
        super().__init__()
        self.attention = attention
        self.alpha = Gate()
        self.linear = linear

    def forward(
        self,
        h0: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        source: Tensor | None,
        beta: Tensor | float = 1.0,
    ) -> VectorField:
        """Return f for a graph and H(0)."""
        alpha = self.alpha()
        reaction = None if source is None else source_term

        def at(h: Tensor) -> ReactionDiffusion:
            adj = self.attention(h, edge_index, edge_weight)
            return ReactionDiffusion(adj, h0 if source is None else source, alpha, beta, reaction)

        return at(h0) if self.linear else lambda t, h: at(h)(t, h)
