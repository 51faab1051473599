"""States over time: Figures 1, 2 and 10."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.protocol import DATASETS, runs_of, runs_on
from gread.report.charts import COLOURS, Axis, Chart, Frame, Image, Panel, Series
from gread.runs.records import MAPPED
from gread.runs.result import Result
from gread.runs.spec import RunSpec

if TYPE_CHECKING:
    from torch import Tensor

SIZE = 40
TIMES = (0.0, 5.0, 25.0, 50.0)
MOMENTS = (*range(10), *range(10, 51, 5))
"""Times of the slider, denser where the state changes faster."""

DYNAMICS = {"blurring-sharpening": "bs", "diffusion": None}
HIDDEN = Axis(hidden=True)
FINAL = Quick(epochs=15, without=())
"""Quick scale of artefacts with one run per dataset."""


def on_a_grid(times: Sequence[float]) -> dict[str, list[Tensor]]:
    """States of a noisy letter on a grid graph at ``times``, by dynamics, with α = β = 1."""
    from gread.data.synthetic import grid
    from gread.models.gread import ReactionDiffusionConv

    graph = grid(SIZE, SIZE)
    h0 = _noisy_letter(graph.pos / (SIZE - 1) * 2 - 1)
    states = {}
    for name, reaction in DYNAMICS.items():
        layer = ReactionDiffusionConv(
            1,
            reaction=reaction,
            adjacency="original",
            alpha="one",
            beta="one",
            time=max(times),
            step_size=0.25,
            normalization="row",  # its steady state is flat up to the border
            self_loops=0.0,
        )
        states[name] = list(layer.evolve(h0, graph.edge_index, save_at=times).saved)
    return states


def _noisy_letter(pos: Tensor) -> Tensor:
    """A letter G under noise, as one feature of nodes placed in [−1, 1]²; [N, 1]."""
    import torch

    x, y = pos[:, 0], -pos[:, 1]
    radius, angle = pos.norm(dim=1), torch.atan2(y, x)
    ring = (radius > 0.5) & (radius < 0.82) & ~((angle > 0) & (angle < 0.75))
    bar = (x > 0.1) & (radius < 0.82) & (y < 0) & (y > -0.3)
    noise = torch.randn(len(pos), generator=torch.Generator().manual_seed(0))
    return ((ring | bar).float() + 0.3 * noise).unsqueeze(1)


def film() -> tuple[Frame, ...]:
    """Frames with both dynamics, one for each of `MOMENTS`."""
    panels, count = snapshots(tuple(map(float, MOMENTS))), len(MOMENTS)
    frames = []
    for time, *pair in zip(MOMENTS, panels[:count], panels[count:], strict=True):
        named = (replace(panel, title=name) for panel, name in zip(pair, DYNAMICS, strict=True))
        frames.append(Frame(f"t = {time}", tuple(named)))
    return tuple(frames)


@cache
def snapshots(times: tuple[float, ...] = TIMES) -> tuple[Panel, ...]:
    """A row for each dynamics, a column for each time, with the colour range of the first state."""
    import numpy as np

    states = on_a_grid(times)
    low, high = np.quantile(states["diffusion"][0].numpy(), [0.02, 0.98]).tolist()
    return tuple(
        Panel(
            f"t = {time:g}",
            image=Image(_square(h), low, high, "state of a node"),
            y=Axis(name if place == 0 else "", hidden=True),
            x=HIDDEN,
        )
        for name, row in states.items()
        for place, (time, h) in enumerate(zip(times, row, strict=True))
    )


def _square(h: Tensor) -> tuple[tuple[float, ...], ...]:
    """Rows of the grid, rounded to the precision of a colour."""
    return tuple(map(tuple, h.view(SIZE, SIZE).double().round(decimals=3).tolist()))


def render_grid(results: Sequence[Result]) -> Chart:
    """Figure 1: blurring-sharpening above diffusion."""
    return Chart(
        "Figure 1: diffusion blurs the letter, the reaction keeps it",
        snapshots(),
        columns=len(TIMES),
        note="Blurring-sharpening is Eq. (14), diffusion Eq. (11); a grid of 1600 nodes with one "
        "feature.",
        frames=film(),
    )


def journey_specs() -> list[RunSpec]:
    """Run of GREAD-BS on Cora that records its states over time."""
    return runs_of("gread-bs", "cora", splits=1, record=("journey",))


def final_specs() -> list[RunSpec]:
    """Runs of GREAD-BS on every dataset that record final states and learned coefficients."""
    return runs_on(DATASETS, ("gread-bs",), splits=1, seeds=(0,), record=("map", "coefficients"))


def render_journey(results: Sequence[Result]) -> Chart:
    """Figure 2: the nodes of Cora at t = 0, 1 and T, with frames at more times."""
    known = [r.records["journey"] for r in results[:1] if r.records]
    panels = {
        time: Panel.of(f"t = {time:.3g}", _classes(places, record["classes"]), HIDDEN, HIDDEN)
        for record in known
        for time, places in zip(record["times"], record["maps"], strict=True)
    }
    shown = [panel for time, panel in panels.items() if time in (0.0, 1.0, max(panels))]
    return Chart(
        "Figure 2: the nodes of Cora over time",
        tuple(shown) or (Panel.of("", (), HIDDEN, HIDDEN),) * 3,
        columns=3,
        note="H(t) of a trained GREAD-BS by t-SNE, each map initialized by the previous one; "
        f"{MAPPED} nodes, coloured by class.",
        frames=tuple(Frame(panel.title, (panel,)) for panel in panels.values()),
    )


def render_final(results: Sequence[Result]) -> Chart:
    """Figure 10: the final states on all datasets."""
    maps = {r.spec.dataset: r.records["map"] for r in results if r.records}
    known = {name: _classes(found["maps"][-1], found["classes"]) for name, found in maps.items()}
    panels = tuple(
        Panel.of(CATALOGUE[name].title, known.get(name, ()), HIDDEN, HIDDEN) for name in DATASETS
    )
    return Chart(
        "Figure 10: the final states of all datasets",
        panels,
        columns=3,
        note=f"H(T) of a trained GREAD-BS by t-SNE; at most {MAPPED} nodes per dataset, coloured "
        "by class.",
    )


def _classes(places: Sequence[Sequence[float]], classes: Sequence[int]) -> tuple[Series, ...]:
    """A series of points for every class."""
    found = []
    for number in sorted(set(classes)):
        own = [place for place, c in zip(places, classes, strict=True) if c == number]
        x, y = zip(*own, strict=True)
        colour = COLOURS[number % len(COLOURS)]
        found.append(Series(f"class {number}", x, y, mark="points", colour=colour))
    return tuple(found)


ARTEFACTS.add("figure-1", Artefact(list, render_grid))
ARTEFACTS.add("figure-2", Artefact(journey_specs, render_journey))
ARTEFACTS.add("figure-10", Artefact(final_specs, render_final, FINAL))
