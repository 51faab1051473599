"""A trained model for the page: states over time, learned coefficients and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import degree, scatter, subgraph

from gread.base.errors import InputError
from gread.dynamics.response import some_responses
from gread.estimator.classifier import GraphEstimator
from gread.estimator.fitted import AUTO
from gread.estimator.graphs import masks_of_data
from gread.graph.measures import dirichlet_energy
from gread.models.catalog import MODELS
from gread.models.gread import GREAD
from gread.runs.result import Result
from gread.runs.run import run
from gread.runs.values import measured
from gread.training.loop import Epoch
from gread.training.metrics import metric_name

MOMENTS = 25
"""Number of times from 0 to T at which states are saved; the page interpolates between them."""

SHOWN = 2000
"""Largest number of nodes on the page."""


def portrait(
    model: Any,
    data: Data,
    *,
    key: str,
    title: str,
    labels: Sequence[str],
    names: Sequence[Any] | None = None,
    split: int = 0,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Data of a model in continuous time for the page.

    All times share one projection, onto the first two principal components. Each time is scaled
    separately to fill the picture, so distances at different times are not comparable.

    Args:
        model: Trained model with ``evolve`` and ``decode``.
        data: Its graph, with classes (−1 for no class) and masks [N] or [N, splits].
        key: Identifier of the model in a link.
        title: Title on the page.
        labels: Names of the classes.
        names: Names of the nodes; by default their numbers.
        split: Column of the masks.
        notes: Notes for the reader.
    """
    times = np.linspace(0, model.time, MOMENTS)
    model.eval()
    with torch.no_grad():
        edges = data.edge_index, data.edge_weight
        states = model.evolve(data.x, *edges, save_at=times.tolist()).saved
        logits = [model.decode(h, *edges) for h in states]
    nodes = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))[:SHOWN]
    nodes = nodes.sort().values
    if data.num_nodes > SHOWN:
        notes = (*notes, f"{SHOWN} of {data.num_nodes} nodes are shown, drawn at random.")
    predictions = [found.argmax(dim=1) for found in logits]
    chosen = masks_of_data(data, split)
    assert chosen is not None
    parts = torch.from_numpy(np.where(chosen < 0, 3, chosen))  # 3: in no part
    sure = logits[-1].double().softmax(dim=1).amax(dim=1)
    learned, response, remark = _learned(model)
    return {
        "key": key,
        "title": title,
        "labels": [str(label) for label in labels],
        "names": [names[i] if names is not None else i for i in nodes.tolist()],
        "times": times.round(6).tolist(),
        "places": [_unit(h).round(4).flatten().tolist() for h in _plane(states, nodes)],
        "classes": data.y[nodes].tolist(),
        "predictions": [found[nodes].tolist() for found in predictions],
        "confidence": sure[nodes].numpy().round(4).tolist(),
        "parts": parts[nodes].tolist(),
        "edges": _edges_among(data.edge_index, nodes, data.num_nodes),
        "degrees": degree(data.edge_index[1], data.num_nodes).long()[nodes].tolist(),
        "alike": [None if a != a else round(a, 3) for a in _alike(data)[nodes].tolist()],
        "accuracy": {
            name: [_share(found, data.y, parts == part) for found in predictions]
            for part, name in enumerate(("train", "val", "test"))
        },
        "energy": [dirichlet_energy(h, data.edge_index).item() for h in states],
        "beta": learned,
        "response": response,
        "notes": [
            *notes,
            "Positions are the first two principal components of the states at all times, scaled "
            "at each time to fill the picture.",
            *([remark] if remark else []),
        ],
    }


def portrait_of_folder(folder: Path) -> dict[str, Any]:
    """Portrait of a model folder of `gread fit` or ``GraphClassifier.save``, on its graph."""
    classifier = GraphEstimator.load(folder)
    if (targets := classifier.task_.targets) != "classes":
        raise InputError(f"--model must hold a model of classes, got one of {targets}")
    if classifier.model_ == AUTO:
        raise InputError(
            "--model must hold a single model, such as one of gread fit --model gread-bs, got a "
            "blend of --model auto"
        )
    entry = MODELS[classifier.model_]
    if not entry.continuous:
        raise InputError(f"--model must hold a model in continuous time, got {entry.title}")
    data: Data | None = getattr(classifier, "data_", None)
    if data is None:
        raise InputError(f"--model must hold the graph of its training, {folder} has none")
    return portrait(
        classifier.module_.cpu(),
        data,
        key="folder",
        title=f"{entry.title} in {folder.name}",
        labels=[str(label) for label in classifier.classes_.tolist()],
        names=classifier.ids_,
    )


def portrait_of_run(
    stored: Result, on_epoch: Callable[[int], None], *, root: str | None = None
) -> dict[str, Any]:
    """Portrait of a stored run, which is trained again because a store has no weights."""
    spec = stored.spec
    seen: list[tuple[nn.Module, Data]] = []

    def follow(epoch: Epoch, model: nn.Module, data: Data) -> None:
        seen[:] = [(model, data)]
        on_epoch(epoch.number)

    again = run(spec, root=root, on_epoch=follow)
    if again.test is None:
        raise InputError(f"the run could not be trained again: {again.message}")
    model, data = seen[0]
    entry = MODELS[spec.model]
    now, before = (measured(value, spec.train) for value in (again.test, stored.test))
    note = (
        "A store keeps numbers and no weights: this model was trained again just now, from its "
        f"settings and its seed. Test {metric_name(spec.train)} {now}, stored {before} "
        f"({stored.device})."
    )
    return portrait(
        model,
        data,
        key=spec.key,
        title=f"{entry.title} on {spec.dataset}, split {spec.split}, seed {spec.seed}",
        labels=[str(number) for number in range(int(data.y.max()) + 1)],
        split=spec.split,
        notes=[note],
    )


def _share(found: Tensor, y: Tensor, chosen: Tensor) -> float | None:
    """Accuracy on the selected nodes with a class."""
    chosen = chosen & (y >= 0)
    if not chosen.any():
        return None
    return round((found[chosen] == y[chosen]).double().mean().item(), 5)


def _plane(states: Sequence[Tensor], nodes: Tensor) -> NDArray[np.float64]:
    """Two principal components of all states together, [moments, nodes, 2]."""
    kept = torch.stack([h[nodes].double() for h in states])
    centred = kept - kept.mean(dim=(0, 1))
    flat = centred.flatten(0, 1)
    _, axes = torch.linalg.eigh(flat.T @ flat)
    plane = axes[:, -2:].flip(1)
    if plane.size(1) == 1:
        plane = torch.cat([plane, torch.zeros_like(plane)], dim=1)
    # Fix the sign of each axis, so that the picture is the same on every machine.
    largest = plane.abs().argmax(dim=0)
    plane = plane * plane.gather(0, largest.unsqueeze(0)).sign()
    found: NDArray[np.float64] = (centred @ plane).numpy()
    return found


def _unit(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale positions to [0, 1]², both axes by the same factor."""
    low, high = places.min(axis=0), places.max(axis=0)
    wide = max(float((high - low).max()), 1e-12)
    return (places - (low + high) / 2) / wide + 0.5


def _edges_among(edge_index: Tensor, nodes: Tensor, count: int) -> list[int]:
    """Each edge between shown nodes once, by their numbers on the page."""
    edges, _ = subgraph(nodes, edge_index, relabel_nodes=True, num_nodes=count)
    return edges[:, edges[0] < edges[1]].T.flatten().tolist()


def _alike(data: Data) -> Tensor:
    """Share of neighbours of the same class for every node; NaN without neighbours or class."""
    source, target = data.edge_index
    same = (data.y[source] == data.y[target]).double()
    counts = degree(target, data.num_nodes)
    shares = scatter(same, target, dim_size=data.num_nodes) / counts
    return shares.masked_fill(data.y < 0, torch.nan)


@torch.no_grad()
def _learned(model: Any) -> tuple[list[float], dict[str, Any] | None, str]:
    """β by channel, the frequency response, and a remark if there is no response."""
    if not isinstance(model, GREAD) or model.layer.reaction is None:
        return [], None, "This model has no β."
    alpha, beta = (
        torch.as_tensor(value).double().flatten().expand(model.layer.channels)
        for value in (model.layer.alpha(), model.layer.beta())
    )
    terms = model.layer.terms
    if terms is None or terms.square or terms.cube:
        return beta.tolist(), None, "Its reaction is not linear, so it has no frequency response."
    lambdas, lines = some_responses(terms, alpha, beta, model.integration)
    shown = [
        {"beta": round(value, 4), "values": line.numpy().round(5).tolist()} for value, line in lines
    ]
    response = {"lambdas": lambdas.numpy().round(4).tolist(), "lines": shown}
    return [round(value, 5) for value in beta.tolist()], response, ""
