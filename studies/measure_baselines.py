"""Investigate cells of Table 8 that differ from the paper by more than two of its deviations.

    python studies/measure_baselines.py STORE [DEVICE] [WORKERS] [MODEL ...]

Run it in the repository's root. On Texas, Chameleon and Cora, and for the named models (by default
all), it tries another form of the model if there is one, and directed edges if the graph has
directions. If the settings of the table are published ones, it also tries the best of 20 random
settings by validation on the first three splits, and settings of other authors; otherwise it tries
the model's defaults in all of these ways. The runs of the table itself are those of the package or
in STORE. Prints a Markdown table of validation and test accuracy.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial, wraps
from itertools import product
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from gread.data.catalog import DATASETS as DATA, dataset
from gread.data.files import parsed
from gread.data.real import benchmark
from gread.experiments.accuracy import summary
from gread.experiments.far import far_cells
from gread.experiments.protocol import GREAD, PUBLISHED, preset_of
from gread.experiments.questions import ARTEFACTS
from gread.models.catalog import MODELS, model
from gread.models.gde import GDE
from gread.runs.archive import known_results
from gread.runs.result import Result
from gread.runs.spec import RunSpec, Value
from gread.runs.store import ResultStore
from gread.search.study import import_optuna
from studies.measure_gaps import line
from studies.tune_baselines import DRAWS, cell, compare, computing

DATASETS = ("texas", "chameleon", "cora")


def _reversed(data: Data) -> Data:
    data.edge_index = data.edge_index.flip(0)
    return data


DIRECTED = {"nodes that link to it": lambda data: data, "nodes that it links to": _reversed}
"""Variants of a directed graph with one direction only."""

for graph, (number, clean) in product(("texas", "chameleon"), enumerate(DIRECTED.values())):
    name = f"{graph}-directed-{number}"
    make = partial(benchmark, name, DATA[graph].files, clean)
    dataset(name, make, stored=parsed(name), key=graph)


@model("gde-linear", title="GDE with linear ends", group="continuous", reference="ours")
@wraps(GDE)
def gde_with_linear_ends(*arguments: Any, **options: Any) -> GDE:
    """GDE whose first and last layer use no neighbours, as in GRAND."""
    found = GDE(*arguments, **options)
    for layer in (found.encoder, found.decoder):
        layer.mix = lambda y, adj: y
    return found


FORMS = {"gde": {"linear first and last layer": "gde-linear"}}
"""Other forms of a model: registered models by description."""

Place = tuple[str, str]
"""Model and dataset."""

ELSEWHERE: dict[Place, dict[str, dict[str, Value]]] = {
    ("gcnii", "chameleon"): {"4 layers": {"num_layers": 4}}  # the setting of GGCN's authors
}
"""Settings from authors other than those of the model."""


def off(known: Mapping[str, Result]) -> dict[Place, list[Result]]:
    """Cells far from the paper except GREAD's, with their runs; ``known`` has results by key."""
    found: dict[Place, list[Result]] = {}
    for spec in ARTEFACTS["table-8"].specs():
        if spec.model not in GREAD and spec.dataset in DATASETS and spec.key in known:
            found.setdefault((spec.model, spec.dataset), []).append(known[spec.key])
    return {place: runs for place, runs in found.items() if far_cells(summary(runs))}


def attempts(place: Place, specs: list[RunSpec]) -> dict[str, list[RunSpec]]:
    """Alternatives to the given runs, except those from a search."""
    name, graph = place
    found = {
        what: [replace(spec, model=other) for spec in specs]
        for what, other in FORMS.get(name, {}).items()
    }
    for what, settings in ELSEWHERE.get(place, {}).items():
        found[what] = [replace(spec, hyper={**spec.hyper, **settings}) for spec in specs]
    for number, what in enumerate(DIRECTED):
        if (other := f"{graph}-directed-{number}") in DATA:
            found[what] = [replace(spec, dataset=other) for spec in specs]
    return found


def main(folder: str, device: str = "cpu", workers: str = "1", *models: str) -> None:
    """Print the table."""
    import_optuna().logging.set_verbosity(30)
    store = ResultStore(folder)
    compute = computing(store, device, workers)  # worker processes import this script
    found = off(known_results(Path(folder)))
    places = [place for place in found if not models or place[0] in models]
    tried = {place: attempts(place, [run.spec for run in found[place]]) for place in places}
    compute([spec for of in tried.values() for specs in of.values() for spec in specs])
    cells = {place: cell(*place, found[place][0].spec.options) for place in places}
    published = [place for place in places if preset_of(*place).source == "published"]
    validation = compare([cells[place] for place in published], store, compute)
    for place, one in cells.items():
        plan = replace(one.plan, splits=range(10))
        if place in published:
            tried[place][f"best of {DRAWS} settings"] = plan.specs(one.best(validation))
        else:
            defaults = plan.specs({})
            tried[place]["its defaults"] = defaults
            for what, of in attempts(place, defaults).items():
                tried[place][f"its defaults, {what}"] = of
    compute([spec for of in tried.values() for specs in of.values() for spec in specs])
    print("| cell | paper | attempt | validation / test |")
    print("| --- | ---: | --- | --- |")
    for place in places:
        title, graph = MODELS[place[0]].title, place[1]
        head = f"| {title} {graph} | {PUBLISHED['paper'][title][graph][0]:.2f} |"
        others = {what: [store.get(spec) for spec in of] for what, of in tried[place].items()}
        for what, runs in {"as in the table": found[place], **others}.items():
            print(head, what, "|", line([run for run in runs if run is not None]), "|", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
