"""A step of GREAD-X compared with a layer of PyG's GCN of the same width, on the same graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from gread.bench.pictures import grouped_bars
from gread.bench.section import BENCHES, Row, Section
from gread.bench.timing import Side, call_seconds, graph, interleave, ratio
from gread.kernels.cuda_graph import Recording
from gread.models.gread_x import GREADX

WORKS = (("Cora", 64), ("Cora", 256), ("Minesweeper", 64), ("Minesweeper", 256))
STEP, LAYER, TUNED = "GREAD-X", "GCNConv", "tuned GCN"


class TunedLayer(nn.Module):
    """Layer H ↦ ReLU(BatchNorm(GCNConv(H) + H R)), built from parts of PyG and PyTorch."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv = GCNConv(channels, channels, cached=True)
        self.residual = nn.Linear(channels, channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        """Return the next H, [N, channels]."""
        return torch.relu(self.norm(self.conv(h, edge_index) + self.residual(h)))


@BENCHES.register("steps")
def steps(device: str, quick: bool) -> Section:
    """A step of GREAD-X with its backward pass, compared with GCN layers."""
    rows: list[Row] = []
    panels: dict[str, dict[str, dict[str, float]]] = {}
    for name, width in WORKS:
        data = graph(name.lower(), device, quick)
        times = interleave(dict(_sides(data, width)), quick)
        row: Row = {"graph": name, "d": width, **ratio(times, slow=STEP, fast=LAYER)}
        tuned = ratio(times, slow=STEP, fast=TUNED)
        rows.append(
            {**row, "relative to tuned GCN": tuned["ratio"], f"{TUNED} ms": tuned[f"{TUNED} ms"]}
        )
        panels.setdefault(name, {})[f"d = {width}"] = {
            side: float(ratio(times, slow=side, fast=LAYER)["ratio"]) for side in (TUNED, STEP)
        }
    note = (
        "Forward and backward pass in training mode without dropout; ratios are medians over "
        "rounds in turn. The step has BS, matrix coefficients, batch normalization and ReLU: three "
        "products with a d × d matrix and two passes over the edges, where GCNConv has one of "
        "each. GCNConv keeps its normalization (cached=True). The tuned layer is GCNConv with a "
        "linear residual, batch normalization and ReLU."
    )
    title = "A step of GREAD-X against a GCN layer"
    return Section(title, rows, note, grouped_bars(panels, ylabel="GCNConv layers", title=title))


def _sides(data: Data, width: int) -> Iterator[tuple[str, Side]]:
    """Yield the sides with their names; on a GPU they replay a CUDA graph, as training does."""
    torch.manual_seed(0)
    h = torch.randn(data.num_nodes, width, device=data.x.device, requires_grad=True)
    upstream = torch.randn_like(h)
    model = GREADX(width, width, width, num_steps=1, dropout=0.0).to(h.device)
    adj = model.operator(h.detach(), data.edge_index, None)
    step, conv = model.steps[0], GCNConv(width, width, cached=True).to(h.device)
    tuned = TunedLayer(width).to(h.device)
    forward: dict[str, tuple[nn.Module, Callable[[], Tensor]]] = {
        STEP: (step, lambda: step(model.terms(0, h, h, adj), adj[0], model.dropouts[1])),
        LAYER: (conv, lambda: conv(h, data.edge_index)),
        TUNED: (tuned, lambda: tuned(h, data.edge_index)),
    }
    for side, (module, call) in forward.items():

        def forward_and_backward(
            call: Callable[[], Tensor] = call, module: nn.Module = module
        ) -> Tensor:
            return torch.autograd.grad(call(), [h, *module.parameters()], upstream)[0]

        work = Recording(forward_and_backward) if h.is_cuda else forward_and_backward
        yield side, partial(call_seconds, work)
