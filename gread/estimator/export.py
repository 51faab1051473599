"""Export of a trained estimator to one file that predicts without gread.

The file holds a program of plain operators from features and edges to predictions, in the format of
`torch.export` or ONNX. The numbers of nodes and edges are dynamic.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from gread.base.errors import InputError
from gread.base.files import whole_file
from gread.base.registry import Registry
from gread.base.versions import versions
from gread.estimator.automatic import Where
from gread.estimator.candidates import RELATIONS, TREES, Candidate
from gread.estimator.fitted import AUTO, FittedEstimator, title_of
from gread.estimator.task import Task
from gread.kernels.operators import PLAIN
from gread.models.catalog import MODELS

ABOUT = "about.json"
"""The extra file with names of features and classes."""

NODES, EDGES = 37, 101
"""Size of the graph with which a program is traced; its values do not matter."""


class Scorer(nn.Module):
    """Predictor on another graph: Σ w p with a temperature, see `gread.estimator.task`.

    Args:
        modules: Networks.
        weights: Weights w of their predictions p.
        candidates: Candidate of each network, which prepares its features and edges.
        task: Task that converts outputs to predictions and calibrates them.
        loss: Loss with which the networks were trained, a name of ``gread.training.LOSSES``.
        temperature: Temperature T.
        components: See `Candidate.features`.
    """

    components: Tensor | None

    def __init__(
        self,
        modules: Sequence[nn.Module],
        weights: Sequence[float],
        candidates: Sequence[Candidate],
        task: Task,
        loss: str,
        temperature: float,
        components: Tensor | None = None,
    ):
        super().__init__()
        self.register_buffer("components", components)
        self.networks = nn.ModuleList(modules)
        self.weights, self.candidates = list(weights), list(candidates)
        self.task, self.loss, self.temperature = task, loss, temperature

    @property
    def directed(self) -> bool:
        """Whether a network uses directions; if not, edges must be given in both directions."""
        return any(one.directed for one in self.candidates)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Compute predictions [N, k] from features [N, F] and edges [2, E]."""
        given = edge_index, edge_weight
        both = both_ways(edge_index, edge_weight, x) if self.directed else given
        mixed: Any = 0.0
        for network, weight, candidate in zip(
            self.networks, self.weights, self.candidates, strict=True
        ):
            edges = given if candidate.directed else both
            outputs = network(candidate.features(x, self.components), *edges)
            mixed = mixed + weight * self.task.decoded(outputs, self.loss)
        if self.temperature != 1:
            mixed = self.task.calibrated(mixed, self.temperature)
        return mixed.float()


def both_ways(
    edge_index: Tensor, edge_weight: Tensor | None, x: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Every edge in both directions, [2, 2 E]; equal edges get their mean weight once, then 0.

    Equivalent to `torch_geometric.utils.to_undirected`, but the size of the output is known in
    advance.
    """
    n = x.size(0)
    given = x.new_ones(edge_index.size(1)) if edge_weight is None else edge_weight
    source, target = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    key, order = (source * n + target).sort()
    first = torch.cat([key.new_ones(1).bool(), key[1:] != key[:-1]])
    place = first.cumsum(0) - 1
    weight = torch.cat([given, given])[order]
    total = torch.zeros_like(weight).index_add(0, place, weight)
    count = torch.zeros_like(weight).index_add(0, place, torch.ones_like(weight))
    mean = (total / count.clamp_min(1.0))[place]
    return torch.stack([source[order], target[order]]), torch.where(first, mean, 0.0)


def export(classifier: FittedEstimator, file: str | Path) -> dict[str, Any]:
    """Write a file that computes predictions without gread: probabilities, or numbers.

    Args:
        classifier: Fitted estimator. Members of a blend that cannot predict another graph are left
            out.
        file: Path with one of the suffixes in `FORMATS`. The file is written atomically.

    Returns:
        Metadata of the file: its inputs, features, preprocessing, the names of its outputs, and
        ``thresholds``, pairs of a class or label and the lowest probability at which it is
        predicted. Without thresholds, the most probable class is predicted.

    Example:
        >>> import tempfile
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60, homophily=0.9, degree=6)
        >>> classifier = gread.GraphClassifier("mlp", settings={"epochs": 2}).fit(data)
        >>> file = tempfile.mkdtemp() + "/model.pt2"
        >>> export(classifier, file)["inputs"]
        ['x', 'edge_index']
        >>> torch.export.load(file).module()(data.x, data.edge_index).shape
        torch.Size([60, 2])
    """
    suffix = Path(file).suffix
    if suffix not in FORMATS:
        raise InputError(f"the file must end with {' or '.join(FORMATS)}, got {str(file)!r}")
    scorer, about = scorer_of(classifier)
    with whole_file(file) as part:
        program = _recorded(scorer, classifier, about)
        part.write_bytes(FORMATS[suffix](program, json.dumps(about, ensure_ascii=False)))
    return about


def scorer_of(classifier: FittedEstimator) -> tuple[Scorer, dict[str, Any]]:
    """Return a module that predicts another graph, and the metadata of its file."""
    task, where = classifier.task_, Where.ELSEWHERE
    if classifier.model_ == AUTO:
        members = classifier.blend_.used(where)
        modules = [one.module for one in members if one.module is not None]
        weights = [one.share(where) for one in members]
        candidates = [one.candidate for one in members]
        temperature = classifier.blend_.temperatures[where]
        components = classifier.blend_.components
    else:
        entry = MODELS[classifier.model_]
        if entry.transductive(classifier.settings_):
            raise InputError(
                f"{classifier.model_} cannot be exported: it has weights for every node of the "
                "graph it was trained on"
            )
        modules, weights, temperature = [classifier.module_], [1.0], 1.0
        candidates, components = [Candidate(entry.title, classifier.model_)], None
    relations = classifier.settings_.get(RELATIONS, 1)
    for one in candidates:
        if one.model != TREES and MODELS[one.model].structure is not None:
            raise InputError(
                f"{one.model} cannot be exported: it needs structure of the graph that gread "
                "precomputes"
            )
        if one.typed or (one.model == classifier.model_ and relations > 1):
            raise InputError(
                f"{one.title} cannot be exported: it has an operator for each type of edges, which "
                "files of this kind do not take"
            )
    loss = classifier.config_.loss
    scorer = Scorer(modules, weights, candidates, task, loss, temperature, components)
    thresholds = classifier.thresholds_[where]
    weighted = classifier.weight is not None
    if "data_" in vars(classifier):
        weighted = classifier.data_.edge_weight is not None
    directed = classifier.directed or scorer.directed
    about = {
        "model": title_of(classifier.model_),
        "members": [one.title for one in candidates],
        "left_out": classifier.left_out(),
        "inputs": ["x", "edge_index", *["edge_weight"] * weighted],
        "edges": "in their direction" if directed else "in both directions",
        "features": classifier.preprocessing_.names(),
        "targets": task.targets,
        "classes": classifier.classes_.tolist(),
        "outputs": "numbers" if task.targets == "numbers" else "probabilities",
        "thresholds": list(zip(task.decisive, thresholds, strict=True)) if thresholds else [],
        "preprocessing": classifier.preprocessing_.to_dict(),
        "versions": versions(),
    }
    return deepcopy(scorer).cpu().eval().requires_grad_(False), about


def _recorded(
    scorer: Scorer, classifier: FittedEstimator, about: dict[str, Any]
) -> ExportedProgram:
    """Trace a scorer as a program of PyTorch operators and those of `PLAIN`."""
    random = torch.Generator().manual_seed(0)
    x = torch.rand(NODES, classifier.preprocessing_.width, generator=random)
    ring = torch.arange(EDGES) % NODES
    inputs: list[Tensor] = [
        x,
        torch.stack([ring, (ring + 1 + torch.arange(EDGES) // NODES) % NODES]),
    ]
    nodes, edges = Dim("nodes", min=2), Dim("edges", min=2)
    free: list[Any] = [{0: nodes}, {1: edges}]
    if "edge_weight" in about["inputs"]:
        inputs.append(torch.rand(EDGES, generator=random) + 0.5)
        free.append({0: edges})
    with torch.no_grad(), _quiet(", ".join(about["members"])):
        return torch.export.export(scorer, tuple(inputs), dynamic_shapes=tuple(free), strict=False)


def _pt2(program: ExportedProgram, about: str) -> bytes:
    """Content of a file for `torch.export.load`."""
    buffer = io.BytesIO()
    with _quiet("the model"):
        plain = program.run_decompositions(PLAIN)
        torch.export.save(plain, buffer, extra_files={ABOUT: about})
    return buffer.getvalue()


def _onnx(program: ExportedProgram, about: str) -> bytes:
    """ONNX model with ``about`` in its metadata."""
    try:
        import onnx  # noqa: F401
        from onnxscript import opset18 as op
    except ImportError as error:
        raise InputError("an ONNX file needs onnxscript: pip install 'gread[onnx]'") from error

    def sort(self: Any, stable: bool = False, dim: int = -1, descending: bool = False) -> Any:
        """Translate a stable `torch.sort`; here, equal keys may change places."""
        return op.TopK(self, op.Shape(self), axis=dim, largest=int(descending), sorted=1)

    with _quiet("the model"):
        found = torch.onnx.export(
            program.run_decompositions(PLAIN | WITHOUT_REPEATS),
            (),
            dynamo=True,
            verbose=False,
            custom_translation_table={torch.ops.aten.sort.stable: sort},
        )
    assert found is not None
    model = found.model_proto
    entry = model.metadata_props.add()
    entry.key, entry.value = ABOUT, about
    return bytes(model.SerializeToString())


def _repeated(counts: Tensor, *, output_size: int) -> Tensor:
    """0 ``counts[0]`` times, 1 ``counts[1]`` times and so on: `torch.repeat_interleave`."""
    ends = counts.cumsum(0)
    begins = counts.new_zeros(output_size + 1).index_add(0, ends, torch.ones_like(ends))
    return begins.cumsum(0)[:-1]


def _repeated_rows(
    x: Tensor, counts: Tensor, dim: int | None = None, *, output_size: int
) -> Tensor:
    return x.index_select(dim or 0, _repeated(counts, output_size=output_size))


WITHOUT_REPEATS: dict[Any, Callable[..., Tensor]] = {
    torch.ops.aten.repeat_interleave.Tensor: _repeated,
    torch.ops.aten.repeat_interleave.self_Tensor: _repeated_rows,
}
"""Decompositions of operators that ONNX does not have."""

FORMATS: Registry[Callable[[ExportedProgram, str], bytes]] = Registry(
    "format of exported models", {".pt2": _pt2, ".onnx": _onnx}
)
"""Functions by file suffix: from a program and its metadata to the bytes of the file."""


@contextmanager
def _quiet(what: str) -> Iterator[None]:
    """Suppress log and warnings of an exporter, and raise a one-line error if it fails."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()) as text,
            redirect_stderr(text),
        ):
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except Exception as error:  # exporters fail in as many ways as there are operators
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = str(cause).strip().partition("\n")[0][:200]
        raise InputError(f"{what} cannot be exported: PyTorch reports {reason!r}") from error
    finally:
        logging.disable(before)
