"""Graph attention networks with residuals, normalization and depth.

Classical networks with these are strong on heterophilous graphs: Platonov et al., ICLR 2023, and
Luo et al., NeurIPS 2024. GCN and GraphSAGE of this kind are `gread.GREADX` without a reaction.
"""

from __future__ import annotations

from torch import Tensor, cat, nn
from torch.nn.functional import gelu

from gread.base.checks import check_count, check_flag
from gread.base.errors import InputError
from gread.graph.operator import Adjacency
from gread.models.base import LayeredGNN
from gread.models.gat import Attention, Neighbourhoods
from gread.models.layers import Dropout, build_encoder
from gread.models.steps import SteppedGNN


def attention_heads(channels: int, heads: int) -> Attention:
    """Attention heads whose total width is that of the state."""
    check_count("heads", heads)
    if channels % heads:
        raise InputError(f"hidden_channels must be a multiple of {heads} heads, got {channels}")
    return Attention(channels // heads, heads, 0.0, mean=False)


class TunedGAT(SteppedGNN):
    """H_{k+1} = φ(Norm(H_k R_k + attention(H_k W_k) P_k)): GAT with a linear residual.

    Args:
        in_channels, hidden_channels, out_channels: As in `LayeredGNN`.
        heads: Number of attention heads; the heads of a step together are as wide as the state.
        num_steps, norm, jump, input_dropout, dropout: As in `gread.GREADX`.
        local: Whether H R is a term.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        heads: int = 1,
        num_steps: int = 4,
        norm: str = "batch",
        local: bool = True,
        jump: bool = False,
        input_dropout: float = 0.0,
        dropout: float = 0.5,
    ):
        check_flag("local", local)
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            terms=1 + local,
            num_steps=num_steps,
            coefficients="matrix",
            weights="per-step",
            norm=norm,
            activation="relu",
            residual=False,
            jump=jump,
            input_dropout=input_dropout,
            dropout=dropout,
        )
        self.adjacency = Neighbourhoods()
        self.local = local
        self.linear = nn.ModuleList(
            nn.Linear(hidden_channels, hidden_channels, bias=False) for _ in range(num_steps)
        )
        self.attention = nn.ModuleList(
            attention_heads(hidden_channels, heads) for _ in range(num_steps)
        )

    def terms(self, number: int, h: Tensor, h0: Tensor, adj: tuple[Adjacency, ...]) -> list[Tensor]:
        """The terms H and attention(H)."""
        gathered = self.attention[number](self.linear[number](h), adj[0])
        return [h, gathered] if self.local else [gathered]


class GATSep(LayeredGNN):
    """GAT-sep: H_{k+1} = H_k + GELU([Z ‖ attention(Z)] W₁) W₂, Z = LayerNorm(H_k) W.

    A node and its neighbours have separate weights, and no self loops are added.

    Args:
        in_channels, hidden_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
        num_layers: Number of blocks.
        heads: Number of attention heads; the heads of a block together are as wide as the state.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        heads: int = 4,
        input_dropout: float = 0.0,
        dropout: float = 0.2,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("num_layers", num_layers)
        self.adjacency = Neighbourhoods(self_loops=0.0)
        self.encoder = build_encoder("linear", in_channels, hidden_channels, input_dropout, dropout)
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(
            SeparateBlock(hidden_channels, heads, dropout) for _ in range(num_layers)
        )
        self.decoder = nn.Sequential(
            nn.LayerNorm(hidden_channels), nn.Linear(hidden_channels, out_channels)
        )

    def states(self, x: Tensor, adj: Adjacency) -> list[Tensor]:
        """The encoded features and the state after every block."""
        states = [gelu(self.dropout(self.encoder(x)))]
        for block in self.blocks:
            states.append(block(states[-1], adj))
        return states


class SeparateBlock(nn.Module):
    """A block of `GATSep`."""

    def __init__(self, channels: int, heads: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.linear = nn.Linear(channels, channels)
        self.attention = attention_heads(channels, heads)
        self.inner = nn.Linear(2 * channels, channels)
        self.outer = nn.Linear(channels, channels)
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, adj: Adjacency) -> Tensor:
        """Apply the block, [N, channels] to [N, channels]."""
        z = self.linear(self.norm(h))
        both = cat([z, self.attention(z, adj)], dim=-1)
        return h + self.dropout(self.outer(gelu(self.dropout(self.inner(both)))))
