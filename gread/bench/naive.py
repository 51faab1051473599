"""GREAD as the published code works: what `gread bench` compares with.

Written from the equations, with nothing clever: a message for every edge, gathered and scattered;
torchdiffeq for the integration; dense features; dropout and linear maps of PyTorch; an evaluation
that is a forward pass of its own. Nothing here comes from gread, so it is also a second opinion:
tests/bench/test_bench.py requires the same numbers from both.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.data import Data
from torch_geometric.utils import add_remaining_self_loops, scatter, softmax
from torchdiffeq import odeint

Product = Callable[[Tensor], Tensor]

REACTIONS: dict[str, Callable[[Tensor, Tensor, Tensor, Product], Tensor]] = {
    "bs": lambda h, h0, lh, product: product(lh),
    "f": lambda h, h0, lh, product: h * (1 - h),
    "ac": lambda h, h0, lh, product: h * (1 - h * h),
    "z": lambda h, h0, lh, product: h * (h - h * h),
    "st": lambda h, h0, lh, product: h0,
    "fb": lambda h, h0, lh, product: lh,
    "fb*": lambda h, h0, lh, product: lh + h,
}
"""r(H) of Eq. (10), from H, H(0), L H and the product with A."""


class NaiveGREAD(nn.Module):
    """GREAD on one graph, with the hyperparameters of ``gread.GREAD``.

    Parameters have the order of those of ``gread.GREAD``.

    Args:
        in_channels: Number of features.
        hidden_channels: Width d of the state.
        out_channels: Number of classes.
        product: ``"scatter"``, or ``"coo"`` for `torch.sparse.mm` (original adjacency alone).
        others: As in ``gread.GREAD``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        reaction: str = "bs",
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
        product: str = "scatter",
    ):
        super().__init__()
        d = hidden_channels
        assert product == "scatter" or adjacency == "original", "COO has no gradient of its entries"
        self.reaction = REACTIONS[reaction]
        self.time, self.step_size, self.solver = time, step_size, solver
        self.input_dropout, self.dropout = input_dropout, dropout
        self.output_activation = output_activation
        self.normalization, self.self_loops, self.heads = normalization, self_loops, heads
        self.product = product
        self.fixed: Product | None = None

        self.encoder = nn.Linear(in_channels, d)
        self.encoder_blocks = nn.ModuleList(
            nn.Linear(d, d) for _ in range(2 if encoder == "mlp" else 0)
        )
        self.soft = adjacency == "soft"
        if self.soft:
            self.query = nn.Linear(d, attention_channels)
            self.key = nn.Linear(d, attention_channels)
            nn.init.constant_(self.query.weight, 1e-5)
            nn.init.constant_(self.key.weight, 1e-5)
        self.beta_is_signed = beta == "vector"
        self.coefficients = nn.ParameterList(
            [
                torch.zeros(d if alpha == "vector" else ()),
                torch.rand(d) * 2 - 1 if beta == "vector" else torch.zeros(()),
            ]
        )
        self.decoder_block = nn.Linear(d, d) if decoder == "mlp" else None
        self.decoder = nn.Linear(d, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F]."""
        h0 = self.encode(x)
        if self.soft:
            product = self.attention(h0, edge_index)
        else:  # once is enough
            if self.fixed is None:
                self.fixed = self.normalized(h0, edge_index)
            product = self.fixed

        def f(t: Tensor, h: Tensor) -> Tensor:
            lh = h - product(h)
            alpha, beta = self.coefficients
            beta = beta if self.beta_is_signed else torch.sigmoid(beta)
            return -torch.sigmoid(alpha) * lh + beta * self.reaction(h, h0, lh, product)

        times = torch.tensor([0.0, self.time], dtype=x.dtype, device=x.device)
        states = odeint(f, h0, times, method=self.solver, options={"step_size": self.step_size})
        return self.decode(states[-1])

    def encode(self, x: Tensor) -> Tensor:
        """Eq. (6)."""
        h = self.encoder(dropout(x, self.input_dropout, self.training))
        if self.encoder_blocks:
            h = dropout(h, self.dropout, self.training)
        for block in self.encoder_blocks:
            h = dropout(h + block(torch.relu(h)), self.dropout, self.training)
        return h

    def decode(self, h: Tensor) -> Tensor:
        """Eq. (8)."""
        h = dropout(torch.relu(h) if self.output_activation else h, self.dropout, self.training)
        if self.decoder_block is not None:
            h = dropout(h, self.dropout, self.training)
            h = dropout(h + self.decoder_block(torch.tanh(h)), self.dropout, self.training)
            h = torch.tanh(h)
        return self.decoder(h)

    def normalized(self, h0: Tensor, edge_index: Tensor) -> Product:
        """The product with D^-½ A D^-½ or A D^-1."""
        source, target, weight = self.with_loops(h0, edge_index)
        n = h0.size(0)
        degree = scatter(weight, source, dim_size=n)
        if self.normalization == "symmetric":
            row_degree = scatter(weight, target, dim_size=n)
            scale = (degree[source] * row_degree[target]).rsqrt()
        else:
            assert self.normalization == "column", "the published code has these two"
            scale = 1 / degree[source]
        weight = (weight * scale).detach()
        if self.product == "scatter":
            return _scatter_product(source, target, weight)
        matrix = torch.sparse_coo_tensor(
            torch.stack([target, source]), weight, (n, n), check_invariants=False
        ).coalesce()
        return lambda h: torch.sparse.mm(matrix, h)

    def attention(self, h0: Tensor, edge_index: Tensor) -> Product:
        """The product with the soft adjacency, Eq. (9)."""
        source, target, _ = self.with_loops(h0, edge_index)
        n = h0.size(0)
        q = self.query(h0).view(n, self.heads, -1)
        k = self.key(h0).view(n, self.heads, -1)
        scores = (q[target] * k[source]).sum(-1) / math.sqrt(q.size(-1))
        return _scatter_product(source, target, softmax(scores, target, num_nodes=n).mean(-1))

    def with_loops(self, h0: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Source, target and weight of every edge, self loops among them."""
        weight = h0.new_ones(edge_index.size(1))
        if self.self_loops:
            edge_index, weight = add_remaining_self_loops(
                edge_index, weight, self.self_loops, h0.size(0)
            )
        return edge_index[0], edge_index[1], weight


def _scatter_product(source: Tensor, target: Tensor, weight: Tensor) -> Product:
    """A message for every edge, gathered, multiplied, and scattered."""

    def product(h: Tensor) -> Tensor:
        messages = weight.unsqueeze(-1) * h.index_select(0, source)
        where = target.unsqueeze(-1).expand_as(messages)
        return torch.zeros_like(h).scatter_add_(0, where, messages)

    return product


def train(
    model: nn.Module,
    data: Data,
    *,
    epochs: int,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    on_epoch: Callable[[float], None] = lambda accuracy: None,
) -> None:
    """Full-batch training on split 0 with an evaluation after every step; ``on_epoch`` follows."""
    masks = [data[name][:, 0] for name in ("train_mask", "val_mask", "test_mask")]
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        logits = model(data.x, data.edge_index)
        loss = cross_entropy(logits[masks[0]], data.y[masks[0]])
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = model(data.x, data.edge_index).argmax(dim=-1) == data.y
            accuracies = [right[mask].float().mean().item() for mask in masks]
        on_epoch(accuracies[1])
