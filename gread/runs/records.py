"""Records: additional measurements of a trained model.

PyTorch and scikit-learn are imported only to compute a record, so names are listed without them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gread.base.registry import Registry
from gread.training.config import TrainConfig

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

RECORDS: Registry[Callable[[Any, Data], Any]] = Registry("record")


@RECORDS.register("energy")
def energy(model: Any, data: Data) -> list[float]:
    """Dirichlet energy of H(t) of a continuous-time model at eleven times from 0 to T."""
    import numpy as np

    times = np.linspace(0, model.time, 11).tolist()
    states = model.evolve(data.x, data.edge_index, data.edge_weight, save_at=times).saved
    return [_energy(h, data) for h in states]


@RECORDS.register("evaluations")
def evaluations(model: Any, data: Data) -> int:
    """Evaluations of the right-hand side in a forward pass."""
    return int(model.evolve(data.x, data.edge_index, data.edge_weight).evaluations)


@RECORDS.register("coefficients")
def coefficients(model: Any, data: Data) -> dict[str, list[float]]:
    """Learned α and β."""
    import torch

    values = {"alpha": model.layer.alpha(), "beta": model.layer.beta()}
    return {name: torch.as_tensor(value).flatten().tolist() for name, value in values.items()}


@RECORDS.register("probabilities")
def probabilities(model: Any, data: Data) -> list[list[int]]:
    """Class probabilities of every node, in millionths, for ensembles."""
    found = model(data.x, data.edge_index, data.edge_weight).softmax(-1)
    millionths: list[list[int]] = (1e6 * found).round().int().tolist()
    return millionths


@RECORDS.register("layer_energy")
def layer_energy(model: Any, data: Data) -> list[float]:
    """Dirichlet energy after every layer of a model with ``hidden_states``.

    In continuous time a layer is a step of the solver.
    """
    states = model.hidden_states(data.x, data.edge_index, data.edge_weight)
    return [_energy(h, data) for h in states]


def _energy(h: Tensor, data: Data) -> float:
    """Dirichlet energy of a state, rescaled first because its squares may overflow float32."""
    from gread.graph.measures import dirichlet_energy

    scale = 2.0**100 if h.abs().max() > 2.0**50 else 1.0
    return scale**2 * dirichlet_energy(h / scale, data.edge_index).item()


@RECORDS.register("layer_rank")
def layer_rank(model: Any, data: Data) -> list[float]:
    """Effective rank of the states after every layer."""
    from gread.graph.measures import effective_rank

    states = model.hidden_states(data.x, data.edge_index, data.edge_weight)
    return [effective_rank(h) for h in states]


@RECORDS.register("map")
def final_map(model: Any, data: Data) -> dict[str, Any]:
    """t-SNE embedding of H(T) in the plane, with the classes."""
    return _maps(model, data, [model.time])


@RECORDS.register("journey")
def journey(model: Any, data: Data) -> dict[str, Any]:
    """t-SNE embeddings of H(t), each initialized with the previous one.

    Times are 0, 1 and T, as in the paper, and multiples of T/8.
    """
    eighths = {eighth * model.time / 8 for eighth in range(8)}
    return _maps(model, data, sorted({*eighths, min(1.0, model.time), model.time}))


MAPPED = 1000
"""Largest number of nodes in an embedding: t-SNE takes seconds for it."""


def _maps(model: Any, data: Data, times: Sequence[float]) -> dict[str, Any]:
    import numpy as np
    import torch
    from sklearn.manifold import TSNE

    states = model.evolve(data.x, data.edge_index, data.edge_weight, save_at=times).saved
    nodes = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))[:MAPPED]
    place: Any = "pca"
    maps = []
    for h in states:
        kept = h.cpu().double().numpy()[nodes.numpy()]
        perplexity = min(30.0, (len(kept) - 1) / 3)
        place = TSNE(init=place, perplexity=perplexity, random_state=0).fit_transform(kept)
        maps.append(np.asarray(place, dtype=float).round(2).tolist())
    classes = data.y.cpu()[nodes].tolist()
    return {"times": list(times), "classes": classes, "maps": maps}


TIMED = 20
"""Number of timed epochs, after as many warm-up epochs."""


@RECORDS.register("epoch_seconds")
def epoch_seconds(model: Any, data: Data) -> list[float]:
    """Seconds per training epoch with evaluation, measured on a copy of the model."""
    import torch

    from gread.training.fit import fit

    with torch.enable_grad():
        # With this learning rate the copy does not diverge.
        found = fit(copy.deepcopy(model), data, TrainConfig(epochs=2 * TIMED, lr=1e-6))
    return [round(seconds, 7) for seconds in found.seconds[-TIMED:]]


ALONE = ("epoch_seconds",)
"""Records that measure the machine: `gread.runs.launch` runs such a spec without other load."""
