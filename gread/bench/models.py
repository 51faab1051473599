"""Cost of every model: an epoch relative to GCN, memory and preparation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import nn
from torch_geometric.data import Data

from gread.bench.pictures import cost_bars
from gread.bench.section import BENCHES, Row, Section
from gread.bench.timing import SLOWLY, fitted, graph, interleave, ratio
from gread.data.files import data_root
from gread.graph.structure.catalog import Prepared, add_structure
from gread.graph.structure.origin import Origin
from gread.models.catalog import MODELS
from gread.runs.presets import REPEATED, find_preset
from gread.runs.run import fingerprint_of
from gread.runs.spec import HIDDEN_CHANNELS
from gread.training.config import TrainConfig
from gread.training.fit import inputs_of, masks_of
from gread.training.memory import bytes_held

GRAPHS = ("cora", "squirrel")


@BENCHES.register("models")
def models(device: str, quick: bool) -> Section:
    """Costs of every model with its preset, on a sparse graph and on a dense one."""
    rows: list[Row] = []
    for name in GRAPHS:
        data = graph(name, device, quick)
        gcn, _ = _built("gcn", name, data)
        for model, entry in MODELS.items():
            prepared = _prepared(data, name, entry.structure, keep=not quick)
            build, config = _built(model, name, prepared.data)
            slowly = replace(SLOWLY, weight_decay=config.weight_decay)
            sides = {
                "GCN": fitted(gcn, data, slowly),
                "model": fitted(build, prepared.data, slowly),
            }
            # Time of an epoch in epochs of a GCN.
            times = ratio(interleave(sides, quick), slow="model", fast="GCN")
            own = build().to(data.x.device)
            extra = inputs_of(own, prepared.data, masks_of(data, 0)[0])
            row: Row = {"model": entry.title, "graph": name, "epochs of a GCN": times["ratio"]}
            row |= {"lowest": times["lowest"], "highest": times["highest"], "ms": times["model ms"]}
            row["MB kept"] = bytes_held(own, data.x, data.edge_index, extra) / 1e6
            if entry.structure is not None:
                row["seconds before"] = prepared.seconds
            rows.append(row)
    note = (
        "An epoch is a training step with its evaluation, with the preset of the model; ratios to "
        "a GCN are medians over rounds in turn. Kept is what autograd holds for the backward "
        "pass; seconds before are those of structure that is computed once for a graph."
    )
    panels = {
        name: {str(r["model"]): float(r["epochs of a GCN"]) for r in rows if r["graph"] == name}
        for name in GRAPHS
    }
    return Section("Cost of every model", rows, note, cost_bars(panels))


def _built(model: str, dataset: str, data: Data) -> tuple[Callable[[], nn.Module], TrainConfig]:
    """Function that builds the model with its preset for a graph, and its training settings."""
    preset = find_preset(model, dataset, sources=REPEATED)
    hyper = {"hidden_channels": HIDDEN_CHANNELS, **preset.hyper}
    width, classes = hyper.pop("hidden_channels"), int(data.y.max()) + 1
    make = partial(MODELS[model].make, data.num_features, width, classes)
    return partial(make, num_nodes=data.num_nodes, **hyper), preset.train


def _prepared(data: Data, dataset: str, structure: str | None, keep: bool) -> Prepared:
    if structure is None:
        return Prepared(data, 0.0, 0)
    on_cpu = data.cpu()
    origin = Origin(dataset, data_root(), fingerprint_of(on_cpu)) if keep else None
    found = add_structure(on_cpu, structure, origin)
    return found._replace(data=found.data.to(data.x.device))
