"""Demo of the paper's main result in under a minute, on graphs that need no download.

Diffusion makes neighbours similar. This helps if they share a class and harms if they do not. The
reaction preserves the differences between nodes.
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

from gread.data.synthetic import csbm, grid
from gread.experiments.evolution import SIZE, on_a_grid, snapshots
from gread.graph.measures import dirichlet_energy
from gread.models.catalog import MODELS, Build
from gread.models.gread import GREAD
from gread.report.charts import COLOURS, Axis, Chart, Panel, Series
from gread.report.figures import draw as draw_chart, save
from gread.training.config import TrainConfig
from gread.training.fit import fit

HOMOPHILIES = (0.0, 0.2, 0.5, 0.8)
SPLITS = 5
HIDDEN_CHANNELS = 32
TRAIN = TrainConfig(epochs=50, lr=0.02, weight_decay=5e-4)

# No model is tuned: all share width, dropout and training, and the continuous models also share
# time and solver.
COMMON: dict[str, Any] = {"input_dropout": 0.5, "dropout": 0.5}
CONTINUOUS = COMMON | {"adjacency": "original", "time": 2.0, "step_size": 1.0, "solver": "euler"}
BUILDS: Mapping[str, Build] = {
    "mlp": partial(MODELS["mlp"].build, **COMMON),
    "gcn": partial(MODELS["gcn"].build, **COMMON),
    # GRAND as in Eq. (17): only diffusion, without the gate and the source term of its code.
    "grand": partial(GREAD, reaction=None, alpha="one", **CONTINUOUS),
    "gread-bs": partial(MODELS["gread-bs"].build, **CONTINUOUS),
}

RUNS = len(HOMOPHILIES) * len(BUILDS) * SPLITS
"""Number of trainings in the demo."""


@dataclass(frozen=True)
class Cell:
    """One model on one graph: test accuracies in percent, one per split."""

    model: str
    homophily: float
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the splits."""
        return fmean(self.accuracies)

    @property
    def deviation(self) -> float:
        """Population standard deviation over the splits."""
        return pstdev(self.accuracies)


@dataclass(frozen=True)
class Demo:
    """Result of the demo: accuracies, and the files of the figures."""

    cells: list[Cell]
    pictures: list[Path]


def demo(out: str | Path, on_run: Callable[[], None] = lambda: None) -> Demo:
    """Train four models from heterophily to homophily, and draw two pictures.

    Args:
        out: Folder of the pictures.
        on_run: Called after each of `RUNS` trainings.

    Example:
        >>> from gread.experiments import demo
        >>> print(demo("runs/demo").cells[-1])  # doctest: +SKIP
        Cell(model='gread-bs', homophily=0.8, accuracies=(99.0, 99.0, 97.0, 98.0, 99.0))
    """
    pictures = draw(Path(out))  # first, so that a folder that cannot be written fails at once
    return Demo(compare(on_run), pictures)


def compare(on_run: Callable[[], None]) -> list[Cell]:
    """Train every model on every graph and split; ``on_run`` is called after each training."""
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
    """Write Figure 1 of the paper, and the Dirichlet energy of the same two processes."""
    edges = grid(SIZE, SIZE).edge_index
    times = np.geomspace(0.1, 50.0, 80).round(6).tolist()
    curves = []
    for colour, (name, states) in zip(COLOURS, on_a_grid(times).items(), strict=False):
        energies = tuple(dirichlet_energy(h, edges).item() for h in states)
        curves.append(Series(name, tuple(times), energies, colour=colour))
    axes = Axis("time t", log=True, limits=(0.1, 50.0)), Axis("Dirichlet energy (Eq. 18)", log=True)
    panel = Panel.of("", curves, *axes)
    charts = {
        "grid.png": Chart(
            "Diffusion blurs the letter, the reaction keeps it", snapshots(), columns=4
        ),
        "energy.png": Chart("Dirichlet energy of the grid over time", (panel,)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file, chart in charts.items():
        save(draw_chart(chart), folder / file)
    return [folder / file for file in charts]
