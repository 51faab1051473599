"""GREAD: Section 3 of the paper on one page.

    H(0) = e(X)                              Eq. (6), the encoder
    H(T) = H(0) + ∫₀ᵀ f(H(t)) dt             Eq. (7), the reaction-diffusion layer
    ŷ    = o(H(T))                           Eq. (8), the output
    f(H) = −α L̃ H + β r(H),   L̃ = I − Ã

Ã is the normalised adjacency of the graph, or learned from H(0) by Eq. (9)
(`gread.graph.adjacency`); r is one of the reactions of Eq. (10) (`gread.dynamics.reactions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from gread.base.checks import check_count, check_not_negative, check_positive
from gread.dynamics.integrate import Solution, integrate, steps
from gread.dynamics.reactions import REACTIONS, Reaction, State, Terms, build_reaction
from gread.dynamics.solve import solve
from gread.dynamics.tableau import SOLVERS
from gread.graph.adjacency import build_adjacency
from gread.graph.checks import check_features
from gread.models.catalog import MODELS, ModelEntry
from gread.models.hub import Pretrained
from gread.models.layers import ALPHAS, BETAS, build_decoder, build_encoder


class ReactionDiffusionConv(nn.Module):
    """The reaction-diffusion layer, h(0) ↦ h(T): a drop-in for a PyG convolution.

    It keeps the width, so it goes between any two layers of a network.

    Paper: Eq. (7), Sec. 3.3; with ``reaction="bs"`` f is Eq. (14).

    Args:
        channels: Width d of the state.
        reaction: A name of ``gread.REACTIONS``, a function of a ``gread.State``, or an
            ``nn.Module`` called with one; ``None`` leaves diffusion alone.
        adjacency: ``"soft"`` (SA, learned by Eq. 9) or ``"original"`` (OA).
        alpha: Diffusion coefficient in (0, 1): one (``"scalar"``) or one a channel
            (``"vector"``); or fixed to ``"one"``.
        beta: Reaction coefficient: one in (0, 1) (``"scalar"``), a signed one for every channel
            (``"vector"``), one in (0, 1) for every channel (``"positive-vector"``), or fixed to
            ``"one"``. With a negative one F, AC and Z blow up in finite time.
        time: T, where the integration ends.
        step_size: τ of a fixed-step solver. With α = β = 1 on a bipartite graph, BS under
            ``"rk4"`` is stable only for τ below 0.7.
        solver: A name of ``gread.SOLVERS``.

    Other Args:
        normalization: Of the original adjacency: ``"symmetric"``, ``"row"`` or ``"column"``.
        self_loops: Weight of the loop given to every node without one; 0 gives none.
        heads: Attention heads of the soft adjacency.
        attention_channels: Width of all its queries together.
        detach_source: Whether the H(0) that a reaction sees passes no gradient, as in the
            published code.
        tolerance: Error allowed to an adaptive solver.

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
    ):
        super().__init__()
        check_count("channels", channels)
        check_not_negative("time", time)
        check_positive("step_size", step_size)
        check_positive("tolerance", tolerance)
        SOLVERS[solver]  # an unknown name fails here, not at the first call
        self.channels = channels
        self.adjacency = build_adjacency(
            adjacency,
            channels,
            normalization=normalization,
            self_loops=self_loops,
            heads=heads,
            attention_channels=attention_channels,
        )
        self.alpha = ALPHAS[alpha](channels)
        self.reaction = None if reaction is None else build_reaction(reaction, channels)
        self.beta = BETAS["one" if reaction is None else beta](channels)
        self.detach_source = detach_source
        self.integrate = partial(
            integrate, time=time, step_size=step_size, solver=solver, tolerance=tolerance
        )

    def reset_parameters(self) -> None:
        """Draws every parameter anew."""
        for part in self.children():
            reset(part)

    def forward(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """H(T) [N, d] from H(0) = ``h`` [N, d]."""
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
        """H(T), and H at the times of ``save_at``; in full precision under autocast as well."""
        kind = h0.device.type
        if torch.is_autocast_enabled(kind):  # errors of steps add up
            with torch.autocast(kind, enabled=False):
                return self.evolve(h0.float(), edge_index, edge_weight, save_at=save_at)
        adj = self.adjacency(h0, edge_index, edge_weight)  # Eq. (9), or A itself
        alpha = self.alpha()
        beta = self.beta()
        source = h0.detach() if self.detach_source else h0

        def f(t: float, h: Tensor) -> Tensor:
            lh = adj.laplacian(h)
            if self.reaction is None:
                return -alpha * lh
            return -alpha * lh + beta * self.reaction(State(h, source, lh, adj))

        if not save_at and self.terms is not None:
            known = solve(adj, h0, source, alpha, beta, terms=self.terms, **self.integrate.keywords)
            if known is not None:
                return known
        return self.integrate(f, h0, save_at=save_at, total=adj.total)  # Eq. (7)

    @property
    def terms(self) -> Terms | None:
        """The reaction as numbers, where it is one of those that `gread.dynamics` knows."""
        return Terms() if self.reaction is None else getattr(self.reaction, "terms", None)


class GREAD(nn.Module, Pretrained):
    """Graph neural reaction-diffusion network (Choi et al., ICML 2023).

    ``model.save_pretrained(folder)`` and ``GREAD.from_pretrained(folder)`` keep it as safetensors
    and JSON, in a folder or on the Hugging Face Hub (the extra ``gread[hub]``).

    Args:
        in_channels: Number F of features of a node.
        hidden_channels: Width d of the state.
        out_channels: Number of classes.
        reaction, adjacency, alpha, beta, time, step_size, solver: As in `ReactionDiffusionConv`.
        input_dropout: Dropout on the features.
        dropout: Dropout before the decoder, and inside the ``"mlp"`` forms.
        encoder: ``"linear"``, or ``"mlp"`` with two residual blocks.
        decoder: ``"linear"``, or ``"mlp"`` with a residual block.
        output_activation: Whether H(T) passes a ReLU.

    Other Args:
        normalization, self_loops, heads, attention_channels, detach_source, tolerance: As in
            `ReactionDiffusionConv`.

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
    ):
        super().__init__()
        self.in_channels = in_channels
        self.encoder = build_encoder(encoder, in_channels, hidden_channels, input_dropout, dropout)
        self.layer = ReactionDiffusionConv(
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
        )
        self.decoder = build_decoder(
            decoder, hidden_channels, out_channels, dropout, output_activation
        )

    @property
    def time(self) -> float:
        """T."""
        time: float = self.layer.integrate.keywords["time"]
        return time

    def reset_parameters(self) -> None:
        """Draws every parameter anew."""
        for part in self.children():
            reset(part)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits ŷ [N, classes] from features X = ``x`` [N, F]."""
        return self.decode(self.evolve(x, edge_index, edge_weight).final, edge_index, edge_weight)

    def decode(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from a state: at T, or on the way what it would say there."""
        return self.decoder(h)  # Eq. (8)

    def evolve(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        save_at: Sequence[float] = (),
    ) -> Solution:
        """H(T), and H at the times of ``save_at``: the trajectory of the node states."""
        check_features("x", x, self.in_channels)
        h0 = self.encoder(x)  # Eq. (6)
        return self.layer.evolve(h0, edge_index, edge_weight, save_at=save_at)  # Eq. (7)

    def hidden_states(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> list[Tensor]:
        """H(0), and the state behind every step of the solver: its layers."""
        times = [
            0.0,
            *(end for _, end in steps(self.time, self.layer.integrate.keywords["step_size"])),
        ]
        return list(self.evolve(x, edge_index, edge_weight, save_at=times).saved)


def _register(name: str, reaction: Reaction | type[nn.Module]) -> None:
    """Every reaction is a model, one that a user registers later too."""
    entry = ModelEntry(
        build=partial(GREAD, reaction=name),
        title=f"GREAD-{name.upper()}",
        group="GREAD",
        reference="Choi et al., ICML 2023",
        continuous=True,
        reaction=True,
    )
    MODELS.add(f"gread-{name}", entry)


REACTIONS.follow(_register)
