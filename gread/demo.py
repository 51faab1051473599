"""The paper's point in under a minute, on graphs that need no download.

Diffusion alone makes neighbours alike, which helps where they share a class and harms where they
do not. The reaction keeps what tells nodes apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gread.data import csbm, grid
from gread.figures import energies, snapshots
from gread.measures import dirichlet_energy
from gread.models import GREAD, MODELS, ReactionDiffusionConv
from gread.models.catalog import Build
from gread.training import TrainConfig, fit

HOMOPHILIES = (0.0, 0.2, 0.5, 0.8)
SPLITS = 5
HIDDEN_CHANNELS = 32
TRAIN = TrainConfig(epochs=50, lr=0.02, weight_decay=5e-4)

# Nobody is tuned: all models share width, dropout and training, the continuous ones also the
# time and the solver.
COMMON: dict[str, Any] = {"input_dropout": 0.5, "dropout": 0.5}
CONTINUOUS = COMMON | {"adjacency": "original", "time": 2.0, "step_size": 1.0, "solver": "euler"}
BUILDS: Mapping[str, Build] = {
    "mlp": partial(MODELS["mlp"].build, **COMMON),
    "gcn": partial(MODELS["gcn"].build, **COMMON),
    # As in Eq. (17), where it is diffusion alone, without the gate and the source of its code.
    "grand": partial(GREAD, reaction=None, alpha="one", **CONTINUOUS),
    "gread-bs": partial(MODELS["gread-bs"].build, **CONTINUOUS),
}


@dataclass(frozen=True)
class Cell:
    """One model on one graph: test accuracies in percent, one a split."""

    model: str
    homophily: float
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the splits."""
        return fmean(self.accuracies)

    @property
    def deviation(self) -> float:
        """The population's, over the splits."""
        return pstdev(self.accuracies)


def compare(on_run: Callable[[], None]) -> list[Cell]:
    """Trains every model on every graph and split; ``on_run`` is called after each training."""
    cells = []
    for homophily in HOMOPHILIES:
        data = csbm(500, 5, homophily=homophily, degree=10, num_features=64, num_splits=SPLITS)
        for name, build in BUILDS.items():
            accuracies = []
            for split in range(SPLITS):
                torch.manual_seed(split)
                model = build(data.num_features, HIDDEN_CHANNELS, 5)
                accuracies.append(100 * fit(model, data, TRAIN, split=split).best.test)
                on_run()
            cells.append(Cell(name, homophily, tuple(accuracies)))
    return cells


def draw(folder: Path) -> list[Path]:
    """Writes Figure 1 of the paper, and the Dirichlet energy of the same two processes."""
    graph = grid(40, 40)
    h0 = _noisy_letter(graph.pos / 39 * 2 - 1)
    shown = (0.0, 5.0, 25.0, 50.0)
    times = np.geomspace(0.1, 50.0, 80).round(6).tolist()
    images, curves = {}, {}
    for name, reaction in {"blurring-sharpening": "bs", "diffusion": None}.items():
        layer = ReactionDiffusionConv(
            1,
            reaction=reaction,
            adjacency="original",
            alpha="one",
            beta="one",
            time=50.0,
            step_size=0.25,
            normalization="row",  # its steady state is flat up to the border
            self_loops=0.0,
        )
        states = layer.evolve(h0, graph.edge_index, save_at=[*shown, *times]).saved
        images[name] = [h.view(40, 40).numpy() for h in states[: len(shown)]]
        curves[name] = [dirichlet_energy(h, graph.edge_index).item() for h in states[len(shown) :]]
    figures = {
        "grid.png": snapshots(images, shown, title="Diffusion forgets; the reaction remembers"),
        "energy.png": energies(times, curves, title="How fast the nodes of the grid become alike"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file, figure in figures.items():
        figure.savefig(folder / file)
    return [folder / file for file in figures]


def _noisy_letter(pos: Tensor) -> Tensor:
    """A letter G under noise, as one feature of nodes placed in [−1, 1]²; [N, 1]."""
    x, y = pos[:, 0], -pos[:, 1]
    radius, angle = pos.norm(dim=1), torch.atan2(y, x)
    ring = (radius > 0.5) & (radius < 0.82) & ~((angle > 0) & (angle < 0.75))
    bar = (x > 0.1) & (radius < 0.82) & (y < 0) & (y > -0.3)
    noise = torch.randn(len(pos), generator=torch.Generator().manual_seed(0))
    return ((ring | bar).float() + 0.3 * noise).unsqueeze(1)
