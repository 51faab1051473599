"""Extreme inputs: half precision, few nodes, ten million nodes, weights of any size."""

import resource
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import gread
from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.models.catalog import MODELS
from gread.tables.column import column
from gread.tables.graph import join
from gread.tables.table import Table
from studies.soak.rows import SCRIPTS, Row

NODES, FEATURES, CLASSES = 30, 5, 3
SEEDS = 5

Check = Callable[[str, int], None]
"""Function of a model name and a seed: returns if all is correct, raises the error of rejected
input, and fails an assertion otherwise."""

CHECKS: Registry[Check] = Registry("check of numbers")


def graph(seed: int, nodes: int = NODES, edges: int = 60) -> tuple[Tensor, Tensor]:
    """Features [N, F] and undirected edges."""
    draw = torch.Generator().manual_seed(seed)
    x = 0.3 * torch.randn(nodes, FEATURES, generator=draw)
    if nodes < 2 or not edges:
        return x, torch.zeros(2, 0, dtype=torch.int64)
    pairs = torch.randint(nodes, (2, edges), generator=draw)
    pairs = pairs[:, pairs[0] != pairs[1]]
    return x, torch.cat([pairs, pairs.flip(0)], dim=1).unique(dim=1)


def build(name: str, seed: int, nodes: int = NODES) -> torch.nn.Module:
    """Small model without dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name].make(FEATURES, 8, CLASSES, num_nodes=nodes).eval()


def check_gradients(model: torch.nn.Module, logits: Tensor) -> None:
    """Require finite logits and finite gradients of a loss."""
    assert logits.isfinite().all()
    if logits.numel():
        loss = cross_entropy(logits.float(), torch.zeros(len(logits), dtype=torch.int64))
        loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


def distance(one: Tensor, other: Tensor) -> float:
    """Largest difference of logits, relative to the largest logit."""
    return (one.double() - other.double()).abs().max().item() / max(1.0, other.abs().max().item())


def _autocast(dtype: torch.dtype, tolerance: float) -> Check:
    def check(name: str, seed: int) -> None:
        x, edge_index = graph(seed)
        model = build(name, seed)
        expected = model(x, edge_index).detach()
        with torch.autocast("cpu", dtype=dtype):
            logits = model(x, edge_index)
        check_gradients(model, logits)
        assert distance(logits, expected) < tolerance

    return check


def _precision(dtype: torch.dtype, tolerance: float) -> Check:
    def check(name: str, seed: int) -> None:
        x, edge_index = graph(seed)
        expected = build(name, seed)(x, edge_index).detach()
        model = build(name, seed).to(dtype)
        logits = model(x.to(dtype), edge_index)
        check_gradients(model, logits)
        assert distance(logits, expected) < tolerance

    return check


def _nodes(nodes: int, edges: int) -> Check:
    def check(name: str, seed: int) -> None:
        x, edge_index = graph(seed, nodes, edges)
        model = build(name, seed, nodes)
        logits = model(x, edge_index)
        assert logits.shape == (nodes, CLASSES)
        check_gradients(model, logits)

    return check


def _weights(make: Callable[[Tensor], Tensor]) -> Check:
    """Compare with double precision."""

    def check(name: str, seed: int) -> None:
        x, edge_index = graph(seed)
        weight = make(torch.arange(edge_index.size(1)))
        model = build(name, seed)
        logits = model(x, edge_index, weight)
        check_gradients(model, logits)
        expected = build(name, seed).double()(x.double(), edge_index, weight.double())
        assert distance(logits, expected.detach()) < 1e-3

    return check


def _type(dtype: torch.dtype) -> Check:
    """Weights with a different dtype from the features."""

    def check(name: str, seed: int) -> None:
        x, edge_index = graph(seed)
        weight = (torch.arange(edge_index.size(1)) % 3 + 1).to(dtype)
        model = build(name, seed)
        found = model(x, edge_index, weight)
        assert distance(found, model(x, edge_index, weight.to(x.dtype)).detach()) < 1e-5

    return check


for _name, _check in {
    "autocast to bfloat16": _autocast(torch.bfloat16, 0.05),
    "autocast to float16": _autocast(torch.float16, 0.01),
    "model and features in bfloat16": _precision(torch.bfloat16, 0.1),
    "model and features in float16": _precision(torch.float16, 0.02),
    "a graph without nodes": _nodes(0, 0),
    "a graph of one node": _nodes(1, 0),
    "two nodes without an edge": _nodes(2, 0),
    "weights 0": _weights(lambda k: torch.zeros(len(k))),
    "weights, a third of them 0": _weights(lambda k: (k % 3).float()),
    "weights −1": _weights(lambda k: -torch.ones(len(k))),
    "weights 1e30": _weights(lambda k: torch.full((len(k),), 1e30)),
    "weights 1e30 and 1e-30": _weights(lambda k: torch.where(k % 2 == 0, 1e30, 1e-30)),
    "weights 3e38": _weights(lambda k: torch.full((len(k),), 3e38)),
    "weights 1e-40": _weights(lambda k: torch.full((len(k),), 1e-40)),
    "weights NaN": _weights(lambda k: torch.full((len(k),), torch.nan)),
    "weights in float64": _type(torch.float64),
    "weights in float16": _type(torch.float16),
    "integer weights": _type(torch.int64),
    "boolean weights": _type(torch.bool),
}.items():
    CHECKS.add(_name, _check)


def outcome(check: str, name: str, seed: int) -> str:
    """``correct``, ``refused``, or a description of the error."""
    try:
        CHECKS[check](name, seed)
        return "correct"
    except (InputError, ArithmeticError):
        return "refused"
    except Exception as error:
        return f"WRONG for {name}: {type(error).__name__} {error!s:.100}"


def isolated(count: int) -> str:
    """Run a forward and a backward pass on nodes without edges, predict, and describe the cost."""
    start, before = perf_counter(), _resident()
    x = torch.randn(count, 2, generator=torch.Generator().manual_seed(0))
    edge_index = torch.zeros(2, 0, dtype=torch.int64)
    model = gread.GREAD(2, 2, 2, input_dropout=0.0)
    loss = cross_entropy(model(x, edge_index), (x[:, 0] > 0).long())
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    with torch.no_grad():
        logits = model.eval()(x, edge_index)
        assert logits.isfinite().all()
        # Without edges, the first thousand nodes have the predictions of a separate graph.
        assert torch.allclose(logits[:1000], model(x[:1000], edge_index), atol=1e-5)
    table = Table("nodes", {"id": column(torch.arange(count).numpy()), "x": column(x.numpy())})
    edges = Table("edges", {"source": column([0]), "target": column([0])})
    assert join(table, edges).num_nodes == count
    grown = (1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e9
    return f"correct, {max(grown, 0):.1f} GB and {perf_counter() - start:.0f} s"


def _resident() -> int:
    return resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[1])


REPAIRED = {
    "autocast to bfloat16": "most models raised errors, and the dynamics of four read half "
    "precision as single precision, which gave wrong numbers",
    "weights in float64": "the compiled kernel read them as single precision, which gave wrong "
    "numbers",
    "weights 3e38": "degrees overflowed, and nodes silently lost their neighbours",
    "weights 1e-40": "GraphSAGE gave NaN",
    "a graph without nodes": "Geom-GCN and WRGAT raised NumPy errors",
}


FAULT = ("Numeric edge cases", "correct or refused")


@SCRIPTS.register("numbers")
def main(times: int | None) -> list[Row]:
    """Run every check on every model and seed, and ten million nodes once."""
    count = 10**5 if times else 10**7
    alone = Row(
        *FAULT, f"{count:,} nodes without an edge", 1, isolated(count), "studies/soak/numbers.py"
    )
    return [*(row(check, times) for check in CHECKS), alone]


def row(check: str, times: int | None) -> Row:
    """Row of one check."""
    found = Counter(outcome(check, name, seed) for name in MODELS for seed in range(times or SEEDS))
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))
    if check in REPAIRED:
        told = f"{told}. Fixed: {REPAIRED[check]}"
    print(f"{check}: {told}", flush=True)
    return Row(
        *FAULT, f"{check}, {len(MODELS)} models", found.total(), told, "studies/soak/numbers.py"
    )
