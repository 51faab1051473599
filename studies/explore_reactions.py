"""Compare reactions of GREAD-X by validation, with the same settings for each.

    python -m studies.explore_reactions STORE DEVICE WORKERS DATASET ...

Run it in the repository's root. The reactions are those of the search (BS, ST and none) and two
that the package does not have, `Perceptron` and `Advection`. The settings are the selected one of
the honest comparison and others near it. Each setting is trained with every reaction on the first
three splits. No test metric is shown. The runs are added to studies/honest-exploration.jsonl.xz.
Runs that are stored, or committed there, are not computed again.
"""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor, nn

from gread.dynamics.reactions import REACTIONS, State
from gread.experiments.searched import Comparison
from gread.models.stacking import PartByPart
from gread.report.tables import TextTable
from gread.runs.archive import ENDING, read_results, write_results
from gread.runs.launch import launch
from gread.runs.spec import RunSpec, Value
from gread.runs.store import ResultStore
from studies.search_settings import Cell, Known, for_graph, near, space_of

EXPLORED = Path(__file__).with_name(f"honest-exploration{ENDING}")
HONEST = Comparison("honest")
MODEL = "gread-x"
SPLITS = range(3)
NEAR = 7
"""Settings near the selected one."""


class Perceptron(PartByPart):
    """r(H) = ReLU(H W + b). With the matrix Q of a step it is an MLP with one hidden layer."""

    def __init__(self, channels: int):
        super().__init__()
        self.linear = nn.Linear(channels, channels)

    def forward(self, s: State) -> Tensor:
        """[N, d] from the state."""
        return torch.relu(self.linear(s.h))


class Advection(PartByPart):
    """r(H)_i = Σ_j Ã_ij tanh((h_j − h_i) V) ⊙ h_j.

    Transport along the edges with a velocity for each edge and channel, which depends on the
    difference of the states, as in CDE (Zhao et al., 2023). Advection with a fixed velocity,
    (Ã_in − Ã_out) H, is a special case of ``direction="both"`` with matrix coefficients.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.velocity = nn.Linear(channels, channels)  # the bias cancels in the difference

    def forward(self, s: State) -> Tensor:
        """[N, d] from the state and the operator."""
        row, column = s.adj.pattern.rows.numbers(), s.adj.pattern.rows.column
        v = self.velocity(s.h)
        velocity = torch.tanh(v.index_select(-2, column) - v.index_select(-2, row))
        moved = s.adj.weight.unsqueeze(-1) * velocity * s.h.index_select(-2, column)
        return torch.zeros_like(s.h).index_add(-2, row, moved)


FURTHER = {"perceptron": Perceptron, "advection": Advection}
COMPARED = ("none", "bs", "st", *FURTHER)


def settings_of(dataset: str) -> list[dict[str, Value]]:
    """The selected setting of the honest comparison, and settings near it."""
    preset = HONEST.selected(MODEL, dataset)
    if preset is None:
        raise SystemExit(f"{MODEL} has no selected setting on {dataset}")
    chosen = {name: value for name, value in preset.hyper.items() if name != "reaction"}
    chosen |= {"lr": preset.train.lr, "weight_decay": preset.train.weight_decay}
    chosen |= {f"options.{name}": value for name, value in preset.options.items()}
    space = for_graph(HONEST, space_of(MODEL), dataset)
    found = [chosen]
    for number in range(NEAR):
        chance = random.Random(zlib.crc32(f"reactions {dataset} {number}".encode()))
        found.append(near(space, chosen | {"reaction": "none"}, chance))
    return [one | HONEST.training_of(dataset) for one in found]


def specs_of(dataset: str, settings: Mapping[str, Value], reaction: str) -> list[RunSpec]:
    """Runs of a setting with a reaction."""
    return Cell(HONEST, MODEL, dataset, []).specs({**settings, "reaction": reaction}, SPLITS)


def table(datasets: list[str], known: Known) -> TextTable:
    """Validation metric of the best setting with every reaction, and the mean over settings."""
    rows = []
    for reaction in COMPARED:
        cells = []
        for dataset in datasets:
            means = [
                100 * fmean(known.get(spec.key) or 0.0 for spec in specs_of(dataset, one, reaction))
                for one in settings_of(dataset)
            ]
            cells.append(f"{max(means):.2f} ({fmean(means):.2f})")
        rows.append((reaction, *cells))
    note = f"Validation metric in percent on the first {len(SPLITS)} splits, seed 0: the best of "
    note += f"{1 + NEAR} settings, and the mean of all."
    return TextTable.of("Reactions of GREAD-X", ("reaction", *datasets), rows, note)


def main(folder: str, device: str, workers: str, *datasets: str) -> None:
    """Compute the runs and print the table."""
    store, before = ResultStore(folder), read_results(EXPLORED)
    store.put(*before)
    specs = [
        spec
        for dataset in datasets
        for one in settings_of(dataset)
        for reaction in COMPARED
        for spec in specs_of(dataset, one, reaction)
    ]
    launch(specs, store, devices=[device], workers=int(workers), histories=False)
    found = {one.spec: one for one in (*before, *store)}
    write_results(EXPLORED, sorted(found.values(), key=lambda one: one.spec.to_json()))
    print(table(list(datasets), store.numbers("val")).markdown())


if __name__ in ("__main__", "__mp_main__"):  # in this process and in worker processes
    for name, reaction in FURTHER.items():
        REACTIONS.register(name)(reaction)

if __name__ == "__main__":
    main(*sys.argv[1:])
