"""Naive GREAD that works like the published code: the baseline of `gread bench`.

It follows the equations without optimizations: a message for every edge, gathered and scattered;
torchdiffeq for the integration; dense features; dropout and linear maps of PyTorch; a separate
forward pass for the evaluation. Only defaults come from gread, so it is also an independent check:
tests/bench/test_bench.py requires the same numbers from both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.data import Data
from torch_geometric.utils import add_remaining_self_loops, scatter, softmax
from torchdiffeq import odeint

from gread.models.gread import GREAD

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
    """GREAD on one graph, with its parameters in the order of ``gread.GREAD``.

    Args:
        channels: Numbers of features, of channels d of the state, and of classes.
        product: ``"scatter"``, or ``"coo"`` for `torch.sparse.mm` (original adjacency only).
        hyper: Hyperparameters of ``gread.GREAD``; H(0) is never detached.
    """

    def __init__(self, *channels: int, product: str = "scatter", **hyper: Any):
        super().__init__()
        given = signature(GREAD).bind(*channels, **hyper)
        given.apply_defaults()
        self.hyper = own = SimpleNamespace(**given.arguments)
        assert not own.detach_source, "the published code does not detach H(0)"
        self.soft = own.adjacency == "soft"
        assert product == "scatter" or not self.soft, "COO has no gradient of its entries"
        self.reaction, self.product = REACTIONS[own.reaction], product
        self.fixed: Product | None = None

        d = own.hidden_channels
        self.encoder = nn.Linear(own.in_channels, d)
        self.encoder_blocks = nn.ModuleList(
            nn.Linear(d, d) for _ in range(2 if own.encoder == "mlp" else 0)
        )
        if self.soft:
            self.query = nn.Linear(d, own.attention_channels)
            self.key = nn.Linear(d, own.attention_channels)
            nn.init.constant_(self.query.weight, 1e-5)
            nn.init.constant_(self.key.weight, 1e-5)
        self.beta_is_signed = own.beta == "vector"
        self.coefficients = nn.ParameterList(
            [
                torch.zeros(d if own.alpha == "vector" else ()),
                torch.rand(d) * 2 - 1 if self.beta_is_signed else torch.zeros(()),
            ]
        )
        self.decoder_block = nn.Linear(d, d) if own.decoder == "mlp" else None
        self.decoder = nn.Linear(d, own.out_channels)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F]."""
        h0 = self.encode(x)
        if self.soft:
            product = self.attention(h0, edge_index)
        else:  # computed once
            if self.fixed is None:
                self.fixed = self.normalized(h0, edge_index)
            product = self.fixed

        def f(t: Tensor, h: Tensor) -> Tensor:
            lh = h - product(h)
            alpha, beta = self.coefficients
            beta = beta if self.beta_is_signed else torch.sigmoid(beta)
            return -torch.sigmoid(alpha) * lh + beta * self.reaction(h, h0, lh, product)

        times = torch.tensor([0.0, self.hyper.time], dtype=x.dtype, device=x.device)
        options = {"step_size": self.hyper.step_size}
        states = odeint(f, h0, times, method=self.hyper.solver, options=options)
        return self.decode(states[-1])

    def encode(self, x: Tensor) -> Tensor:
        """Encoder, Eq. (6)."""
        h = self.encoder(dropout(x, self.hyper.input_dropout, self.training))
        if self.encoder_blocks:
            h = self.drop(h)
        for block in self.encoder_blocks:
            h = self.drop(h + block(torch.relu(h)))
        return h

    def decode(self, h: Tensor) -> Tensor:
        """Decoder, Eq. (8)."""
        h = self.drop(torch.relu(h) if self.hyper.output_activation else h)
        if self.decoder_block is not None:
            h = self.drop(h)
            h = torch.tanh(self.drop(h + self.decoder_block(torch.tanh(h))))
        return self.decoder(h)

    def drop(self, h: Tensor) -> Tensor:
        """Dropout after the encoder."""
        return dropout(h, self.hyper.dropout, self.training)

    def normalized(self, h0: Tensor, edge_index: Tensor) -> Product:
        """The product with D^-½ A D^-½ or A D^-1."""
        source, target, weight = self.with_loops(h0, edge_index)
        n = h0.size(0)
        degree = scatter(weight, source, dim_size=n)
        if self.hyper.normalization == "symmetric":
            row_degree = scatter(weight, target, dim_size=n)
            scale = (degree[source] * row_degree[target]).rsqrt()
        else:
            assert self.hyper.normalization == "column", "the published code has these two"
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
        q = self.query(h0).view(n, self.hyper.heads, -1)
        k = self.key(h0).view(n, self.hyper.heads, -1)
        scores = (q[target] * k[source]).sum(-1) / math.sqrt(q.size(-1))
        return _scatter_product(source, target, softmax(scores, target, num_nodes=n).mean(-1))

    def with_loops(self, h0: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Source, target and weight of every edge, including self-loops."""
        weight, loops = h0.new_ones(edge_index.size(1)), self.hyper.self_loops
        if loops:
            edge_index, weight = add_remaining_self_loops(edge_index, weight, loops, h0.size(0))
        return edge_index[0], edge_index[1], weight


def _scatter_product(source: Tensor, target: Tensor, weight: Tensor) -> Product:
    """Product with a message for every edge: gathered, multiplied and scattered."""

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
    """Train full-batch on split 0; evaluate and call ``on_epoch`` after every step."""
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
