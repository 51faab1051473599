"""GREAD: the equations of Section 3 of the paper.

    H(0) = e(X)                              Eq. (6), the encoder
    H(T) = H(0) + ∫₀ᵀ f(H(t)) dt             Eq. (7), the reaction-diffusion layer
    ŷ    = o(H(T))                           Eq. (8), the output
    f(H) = −α L̃ H + β r(H) + γ H,   L̃ = I − Ã

Beyond the paper, coefficients may be matrices (cross-diffusion), and there may be a local term γ H.

Ã is the normalized adjacency of the graph, or learned from H(0) by Eq. (9)
(`gread.graph.adjacency`); r is one of the reactions of Eq. (10) (`gread.dynamics.reactions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch_geometric.nn.inits import reset

from gread.base.checks import check_count
from gread.base.registry import Registry
from gread.dynamics.integrate import Solution
from gread.dynamics.reactions import Reaction, Terms, build_reaction, terms_of
from gread.dynamics.solve import ReactionDiffusion, solve
from gread.dynamics.tableau import Integration
from gread.graph.adjacency import OriginalAdjacency, SoftAdjacency
from gread.graph.checks import check_features
from gread.graph.operator import EdgeSource
from gread.kernels.backend import fast
from gread.models.continuous import ContinuousGNN, ContinuousGNNs, solve_from
from gread.models.hub import Pretrained
from gread.models.layers import (
    ALPHAS,
    BETAS,
    LOCALS,
    Coefficients,
    FeatureMap,
    Matrix,
    OutputMap,
    build_decoder,
    build_encoder,
    output_map,
)
from gread.models.stacking import CannotStack, PartByPart


class ReactionDiffusionConv(PartByPart):
    """Reaction-diffusion layer h(0) ↦ h(T), a drop-in replacement for a PyG convolution.

    The number of channels stays the same.

    Paper: Eq. (7), Sec. 3.3; with ``reaction="bs"`` f is Eq. (14).

    Args:
        channels: Width d of the state.
        reaction: A name of ``gread.REACTIONS``, a function of a ``gread.State``, or an
            ``nn.Module`` called with one; ``None`` for pure diffusion.
        adjacency: ``"soft"`` (SA, learned by Eq. 9) or ``"original"`` (OA).
        alpha: Diffusion coefficient: a number in (0, 1) for all channels (``"scalar"``) or for
            each (``"vector"``), a matrix that mixes channels (``"matrix"``, −L̃ H α), or fixed to
            ``"one"``.
        beta: Reaction coefficient: a number in (0, 1) for all channels (``"scalar"``), a signed
            number for each (``"vector"``), a number in (0, 1) for each (``"positive-vector"``), a
            matrix (``"matrix"``, r(H) β), or fixed to ``"one"``. With a negative β, F, AC and Z
            diverge in finite time.
        time: End time T.
        step_size: Step τ of a fixed-step solver. With α = β = 1 on a bipartite graph, BS under
            ``"rk4"`` is stable only for τ below 0.7.
        solver: A name of ``gread.SOLVERS``.

    Other Args:
        normalization: Normalization of the original adjacency: ``"symmetric"``, ``"row"`` or
            ``"column"``.
        self_loops: Weight of the self loop that is added to every node without one; 0 adds none.
        heads: Attention heads of the soft adjacency.
        attention_channels: Total width of the queries of all heads.
        detach_source: Detach the H(0) that a reaction receives, as in the published code.
        tolerance: Relative and absolute error tolerance of an adaptive solver.
        local: Coefficient γ of a local term γ H, initialized to 0: ``"none"``, ``"scalar"``,
            ``"vector"`` or ``"matrix"``.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60)
        >>> layer = gread.ReactionDiffusionConv(2, reaction="fb", adjacency="original", time=3.0)
        >>> layer(data.x, data.edge_index).shape
        torch.Size([60, 2])
    """

    def __init__(
        self,
        channels: int,
        *,
        reaction: str | Reaction | type[nn.Module] | None = "bs",
        adjacency: str = "soft",
        alpha: str = "scalar",
        beta: str = "vector",
        time: float = 1.0,
        step_size: float = 1.0,
        solver: str = "rk4",
        normalization: str = "symmetric",
        self_loops: float = 1.0,
        heads: int = 4,
        attention_channels: int = 64,
        detach_source: bool = False,
        tolerance: float = 1e-5,
        local: str = "none",
    ):
        super().__init__()
        check_count("channels", channels)
        self.channels = channels
        self.integration = Integration(time, step_size, solver, tolerance)
        size = {"heads": heads, "attention_channels": attention_channels}
        adjacencies: Registry[Callable[..., nn.Module]] = Registry(
            "adjacency",
            {
                "original": partial(OriginalAdjacency, normalization=normalization),
                "soft": partial(SoftAdjacency, channels, **size),
            },
        )
        self.adjacency = adjacencies[adjacency](self_loops=self_loops)
        self.alpha = ALPHAS[alpha](channels)
        self.reaction = None if reaction is None else build_reaction(reaction, channels)
        self.beta = BETAS["one" if reaction is None else beta](channels)
        build = LOCALS[local]
        self.local = None if build is None else build(channels)
        self.detach_source = detach_source

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        for part in self.children():
            reset(part)

    def forward(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Compute H(T) [N, d] from H(0) = ``h`` [N, d]."""
        check_features("h", h, self.channels)
        return self.evolve(h, edge_index, edge_weight).final

    def evolve(
        self,
        h0: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        save_at: Sequence[float] = (),
    ) -> Solution:
        """Compute H(T), and H at the times of ``save_at``."""
        return solve_from(
            lambda h0: self.field(h0, edge_index, edge_weight), h0, self.integration, save_at
        )

    def field(
        self, h0: Tensor, edge_index: Tensor | EdgeSource, edge_weight: Tensor | None
    ) -> ReactionDiffusion:
        """The right-hand side f(H) = −α L̃ H + β r(H) + γ H."""
        adj = self.adjacency(h0, edge_index, edge_weight)  # Eq. (9), or A itself
        source = h0.detach() if self.detach_source else h0
        local = None if self.local is None else self.local()
        return ReactionDiffusion(adj, source, self.alpha(), self.beta(), self.reaction, local)

    @property
    def terms(self) -> Terms | None:
        """The reaction as coefficients; None if it is not a polynomial of the known terms."""
        return terms_of(self.reaction)

    @property
    def commutes(self) -> bool:
        """Whether H(0) M flows to H(T) M, for a matrix M of any width.

        It does if f is linear and all channels share α and β.
        """
        terms = self.terms
        if terms is None or terms.square or terms.cube or self.local is not None:
            return False
        return all(c.parameter is None or c.parameter.numel() == 1 for c in (self.alpha, self.beta))

    @classmethod
    def stacked(cls, members: Sequence[ReactionDiffusionConv]) -> nn.Module:
        """Stack several members, each with its own α and β."""
        if members[0].terms is None:
            raise CannotStack("the reaction is not a polynomial of the known terms")
        if any(m.local or isinstance(c, Matrix) for m in members for c in (m.alpha, m.beta)):
            raise CannotStack("matrix coefficients and local terms have no program of passes")
        made = super().stacked(members)
        for name in ("alpha", "beta"):
            # As wide as the state, so that rounding does not depend on the kinds of other members.
            kinds = [getattr(member, name) for member in members]
            setattr(made, name, Coefficients(kinds, members[0].channels))
        return made


class StandardForm(NamedTuple):
    """Parts of a GREAD with linear maps, a fixed Ã and a fixed-step solver."""

    encoder: FeatureMap
    layer: ReactionDiffusionConv
    output: OutputMap


class GREAD(ContinuousGNN, Pretrained):
    """Graph neural reaction-diffusion network (Choi et al., ICML 2023).

    ``model.save_pretrained(folder)`` and ``GREAD.from_pretrained(folder)`` save and load the model
    as safetensors and JSON, in a folder or on the Hugging Face Hub (extra ``gread[hub]``).

    Args:
        in_channels: Number F of features per node.
        hidden_channels: Width d of the state.
        out_channels: Number of classes.
        reaction, adjacency, alpha, beta, time, step_size, solver: As in `ReactionDiffusionConv`.
        input_dropout: Dropout on the features.
        dropout: Dropout before the decoder, and inside an ``"mlp"`` encoder or decoder.
        encoder: ``"linear"``, or ``"mlp"`` with two residual blocks.
        decoder: ``"linear"``, or ``"mlp"`` with a residual block.
        output_activation: Whether a ReLU is applied to H(T).

    Other Args:
        normalization, self_loops, heads, attention_channels, detach_source, tolerance, local: As
            in `ReactionDiffusionConv`.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60)
        >>> model = gread.GREAD(data.num_features, 16, 2, reaction="bs", time=2.0, step_size=0.5)
        >>> model(data.x, data.edge_index).shape
        torch.Size([60, 2])
        >>> model.evolve(data.x, data.edge_index, save_at=[0.0, 1.0]).evaluations
        16
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        reaction: str | Reaction | type[nn.Module] | None = "bs",
        adjacency: str = "soft",
        alpha: str = "scalar",
        beta: str = "vector",
        time: float = 1.0,
        step_size: float = 1.0,
        solver: str = "rk4",
        input_dropout: float = 0.5,
        dropout: float = 0.0,
        encoder: str = "linear",
        decoder: str = "linear",
        output_activation: bool = False,
        normalization: str = "symmetric",
        self_loops: float = 1.0,
        heads: int = 4,
        attention_channels: int = 64,
        detach_source: bool = False,
        tolerance: float = 1e-5,
        local: str = "none",
    ):
        first = build_encoder(encoder, in_channels, hidden_channels, input_dropout, dropout)
        layer = ReactionDiffusionConv(
            hidden_channels,
            reaction=reaction,
            adjacency=adjacency,
            alpha=alpha,
            beta=beta,
            time=time,
            step_size=step_size,
            solver=solver,
            normalization=normalization,
            self_loops=self_loops,
            heads=heads,
            attention_channels=attention_channels,
            detach_source=detach_source,
            tolerance=tolerance,
            local=local,
        )
        last = build_decoder(decoder, hidden_channels, out_channels, dropout, output_activation)
        super().__init__(in_channels, first, last, layer.integration)
        del self.decoder  # `reset_parameters` draws in the order of the equations
        self.layer, self.decoder = layer, last

    def standard_form(self) -> StandardForm | None:
        """The parts of a model with linear maps, a fixed Ã and fixed steps; None for others."""
        layer, encoder, output = self.layer, self.encoder, output_map(self.decoder)
        if type(self) is not GREAD or type(encoder) is not FeatureMap or encoder.unit_rows:
            return None
        if type(layer.adjacency) is not OriginalAdjacency or output is None:
            return None
        detached = layer.detach_source and layer.terms is not None and layer.terms.source
        if layer.terms is None or layer.local is not None or detached:
            return None
        if self.integration.tableau is None or self.integration.time == 0:
            return None
        return StandardForm(encoder, layer, output)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F].

        If the flow commutes with a linear decoder, an evaluation integrates the logits in place of
        the state: H(T) W is the flow from H(0) W, which has fewer channels.
        """
        output = self._commuting_output()
        if output is None:
            return super().forward(x, edge_index, edge_weight)
        self.check(x, edge_index, edge_weight)
        h0 = self.encode(x, edge_index, edge_weight)
        logits = linear(h0, output.weight)
        f = replace(self.field(h0, edge_index, edge_weight), source=logits)
        return solve(f, logits, self.integration).final + output.bias

    def _commuting_output(self) -> nn.Linear | None:
        """The linear map of the decoder, if it may be applied before the flow."""
        if type(self) is not GREAD or self.training or torch.is_grad_enabled() or not fast():
            return None
        layer, output = self.layer, output_map(self.decoder)
        if output is None or output.linear.out_features >= layer.channels or not layer.commutes:
            return None
        hooks = any(m._forward_hooks or m._forward_pre_hooks for m in self.modules())
        if (
            hooks
            or self.integration.tableau is None
            or torch.is_autocast_enabled(output.linear.weight.device.type)
        ):
            return None
        return output.linear

    def field(
        self, h0: Tensor, edge_index: Tensor | EdgeSource, edge_weight: Tensor | None
    ) -> ReactionDiffusion:
        """The right-hand side f(H) = −α L̃ H + β r(H) + γ H."""
        return self.layer.field(h0, edge_index, edge_weight)

    @classmethod
    def stacked(cls, members: Sequence[GREAD]) -> nn.Module:
        """Stack several members, each with its own α, β, T and τ."""
        return ContinuousGNNs(members)
