"""The network: an encoder, layers of sheaf diffusion and a linear map to the classes."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import elu
from torch_geometric.nn.inits import reset

from gread.base.checks import check_count, check_not_negative
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, FeatureMap
from gread.models.sheaf.laplacian import Ends, SheafLaplacian, ends_of, fixed_laplacian
from gread.models.sheaf.maps import MAPS, Learner


class SheafLayer(nn.Module):
    """X ↦ (1 + tanh ε) X − ELU(Δ W₁ X W₂), with Δ learned from X.

    Args:
        maps: Module that computes Δ on the first coordinates of the stalk.
        stalk_dim: Number of coordinates, including those with a fixed Δ.
        channels: Width f of each coordinate.
        dropout: Dropout on X before W₁.
        maps_dropout: Dropout on the X from which Δ is computed.
    """

    def __init__(
        self, maps: nn.Module, stalk_dim: int, channels: int, dropout: float, maps_dropout: float
    ):
        super().__init__()
        self.maps = maps
        self.dropout = Dropout(dropout)
        self.maps_dropout = Dropout(maps_dropout)
        self.epsilon = nn.Parameter(torch.empty(stalk_dim, 1))
        self.left = nn.Parameter(torch.empty(stalk_dim, stalk_dim))
        self.right = nn.Parameter(torch.empty(channels, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize with ε = 0, W₁ = I and an orthogonal W₂."""
        reset(self.maps)
        nn.init.zeros_(self.epsilon)
        nn.init.eye_(self.left)
        nn.init.orthogonal_(self.right)

    def forward(self, x: Tensor, ends: Ends, fixed: SheafLaplacian | None) -> Tensor:
        """Map X [N, d, f] to [N, d, f], where ``fixed`` is Δ on the last coordinates."""
        learned = self.maps(self.maps_dropout(x), ends)
        y = self.left @ self.dropout(x) @ self.right
        if fixed is None:
            y = learned @ y
        else:
            count = fixed.blocks.size(0)
            y = torch.cat([learned @ y[:, :-count], fixed @ y[:, -count:]], 1)
        return (1 + self.epsilon.tanh()) * x - elu(y)


class NeuralSheafDiffusion(LayeredGNN):
    """Diffusion on a sheaf that is learned in every layer.

    Edges are made undirected, and self loops are removed. Edge weights are those of a weighted
    Laplacian: (L X)_u = Σ w F_uᵀ (F_u X_u − F_v X_v).

    Args:
        in_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
        hidden_channels: Channels f of each coordinate.
        maps: ``"diag"``, ``"bundle"`` or ``"general"``.
        stalk_dim: Coordinates d of a node that the maps act on.
        num_layers: Number of layers.
        sheaf_decay: Weight decay of the learner of the maps; by default that of the training.

    Other Args:
        sharpen: Whether to add a coordinate with Δ = D*^-½ (D + A) D*^-½, which makes neighbours
            differ (the authors' ``add_lp``).
        smooth: Whether to add a coordinate with D − A in place of D + A, which makes neighbours
            similar (the authors' ``add_hp``).
        second_linear: Whether the encoder has a second linear map.
        shared_learner: Whether the learner of the maps uses the sum over the coordinates, with
            fewer weights (the authors' ``sparse_learner``).
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        maps: str = "bundle",
        stalk_dim: int = 3,
        num_layers: int = 2,
        input_dropout: float = 0.0,
        dropout: float = 0.5,
        sheaf_decay: float | None = None,
        sharpen: bool = False,
        smooth: bool = False,
        second_linear: bool = False,
        shared_learner: bool = False,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("stalk_dim", stalk_dim)
        check_count("num_layers", num_layers)
        if sheaf_decay is not None:
            check_not_negative("sheaf_decay", sheaf_decay)
        self.sheaf_decay = sheaf_decay
        signs = [-1.0] * sharpen + [1.0] * smooth
        shape = stalk_dim + len(signs), hidden_channels
        width = shape[0] * shape[1]
        self.encoder = nn.Sequential(
            FeatureMap(in_channels, width, input_dropout),
            nn.ELU(),
            Dropout(dropout),
            nn.Linear(width, width) if second_linear else nn.Identity(),
            nn.Unflatten(1, shape),
        )
        learner = partial(Learner, *shape, shared=shared_learner)
        self.layers = nn.ModuleList(
            SheafLayer(MAPS[maps](stalk_dim, learner), *shape, dropout, dropout if number else 0.0)
            for number in range(num_layers)
        )
        self.decoder = nn.Linear(width, out_channels)
        self.signs: Tensor
        self.register_buffer("signs", torch.tensor(signs), persistent=False)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Parameter groups: learners of maps use ``sheaf_decay``, all others ``weight_decay``.

        Learners of the edge weights of a bundle belong to the others.
        """
        named = dict(self.named_parameters())
        learners = [parameter for name, parameter in named.items() if ".maps.learner." in name]
        others = [parameter for name, parameter in named.items() if ".maps.learner." not in name]
        decay = weight_decay if self.sheaf_decay is None else self.sheaf_decay
        return [
            {"params": others, "weight_decay": weight_decay},
            {"params": learners, "weight_decay": decay},
        ]

    def operator(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Ends:
        """The ends of the edges."""
        return ends_of(edge_index, edge_weight, x)

    def states(self, x: Tensor, adj: Ends) -> list[Tensor]:
        """Return the concatenated stalks of every node, initially and after every layer."""
        fixed = fixed_laplacian(self.signs, adj) if self.signs.numel() else None
        states = [self.encoder(x)]
        for layer in self.layers:
            states.append(layer(states[-1], adj, fixed))
        return [state.flatten(1) for state in states]
