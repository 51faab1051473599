"""Learned filters of GREAD-BS: beyond the paper.

Along an eigenvector of Ã with eigenvalue λ, the state of a channel is a scalar h with

    dh/dt = (−α (1 − λ) + β λ (1 − λ)) h,

and a fixed-step solver multiplies h by a polynomial of λ: the frequency response of the channel.
"""

from __future__ import annotations

from collections.abc import Sequence

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.artefact import ARTEFACTS, Artefact
from gread.experiments.evolution import FINAL, final_specs
from gread.experiments.protocol import DATASETS
from gread.models.catalog import integration_of
from gread.report.charts import COLOURS, Axis, Chart, Panel, Series
from gread.runs.result import Result

BINS, RANGE = 30, 1.5
"""Bins of the histogram of β, and its range; values outside count in the outer bins."""


def render_response(results: Sequence[Result]) -> Chart:
    """A panel for every dataset, a line for every channel, coloured by the sign of its β."""
    import torch

    from gread.dynamics.reactions import REACTIONS, Terms
    from gread.dynamics.response import CHANNELS, some_responses

    terms: Terms = REACTIONS["bs"].terms  # type: ignore[union-attr]
    known = {r.spec.dataset: r for r in results if r.records}
    axes = Axis("eigenvalue λ of Ã", limits=(-1.0, 1.0)), Axis("response", limits=(-0.5, 2.0))
    panels = []
    for dataset in DATASETS:
        series: list[Series] = []
        if dataset in known:
            learned = {
                name: torch.tensor(values, dtype=torch.float64)
                for name, values in known[dataset].records["coefficients"].items()
            }
            alpha, beta = torch.broadcast_tensors(learned["alpha"], learned["beta"])
            integration = integration_of(known[dataset].spec.hyper)
            eigenvalues, lines = some_responses(terms, alpha, beta, integration)
            for value, line in lines:
                sign, colour = ("β > 0", COLOURS[0]) if value > 0 else ("β < 0", COLOURS[1])
                x, y = tuple(eigenvalues.tolist()), tuple(line.tolist())
                series.append(Series(sign, x, y, colour=colour, width=0.8))
        panels.append(Panel.of(CATALOGUE[dataset].title, series, *axes))
    return Chart(
        "The frequency response of GREAD-BS",
        tuple(panels),
        columns=3,
        note="H(T) is a polynomial of Ã applied to H(0), one per channel. λ = 1 is constant over "
        f"the graph, λ = −1 alternates along every edge. At most {CHANNELS} channels per dataset, "
        "evenly spaced in the order of β. Diffusion alone would decrease from 1 at λ = 1.",
    )


def render_beta(results: Sequence[Result]) -> Chart:
    """A histogram for every dataset."""
    import numpy as np

    known = {r.spec.dataset: r.records["coefficients"]["beta"] for r in results if r.records}
    axes = Axis("β", limits=(-RANGE, RANGE)), Axis("share of channels")
    panels = []
    for dataset in DATASETS:
        within = np.clip(known.get(dataset, []), -RANGE, RANGE)
        counts, edges = np.histogram(within, BINS, (-RANGE, RANGE))
        share = counts / max(1, counts.sum())
        middles = (edges[1:] + edges[:-1]) / 2
        bars = Series("", tuple(middles.tolist()), tuple(share.tolist()), mark="bars")
        title, series = CATALOGUE[dataset].title, (bars,) if dataset in known else ()
        panels.append(Panel.of(title, series, *axes))
    return Chart(
        "The β that GREAD-BS learns",
        tuple(panels),
        columns=3,
        note="One value per channel, initialized uniformly in [−1, 1].",
    )


for _name, _render in (("response", render_response), ("beta", render_beta)):
    ARTEFACTS.add(_name, Artefact(final_specs, _render, FINAL))
