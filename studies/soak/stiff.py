"""Stiff and diverging dynamics: bounded time, a status, and the largest stable step."""

import re
import time

import torch

from gread.models.catalog import MODELS
from gread.runs.result import Result
from gread.runs.run import run, run_together
from gread.runs.spec import RunSpec
from gread.training.config import TrainConfig
from studies.soak.rows import SCRIPTS, Row

FAULT = "Stiff or exploding dynamics"
MUST_HOLD = (
    "bounded time, a stored status, a message with the stable step; no hang, no silent NaN in a "
    "table"
)
SECONDS = 120.0
SOLVERS = ("euler", "heun", "rk4", "rk4-classic", "dopri5")
GRAPHS = (
    ("csbm", {"num_nodes": 180, "homophily": 0.0, "degree": 4}),  # bipartite: λ = −1
    ("csbm", {"num_nodes": 180, "homophily": 0.6, "degree": 4, "sigma": 5.0}),
    ("texas", {}),
)
CASES = {
    "Fisher with T from 10 to 1000": ("gread-f", {}, (10.0, 100.0, 1000.0)),
    "BS beyond its stable step": (
        "gread-bs",
        {"alpha": "one", "beta": "one", "adjacency": "original"},
        (60.0, 300.0),
    ),
    "Zeldovich at T = 6": ("gread-z", {}, (6.0,)),
    "Allen-Cahn at T = 50": ("gread-ac", {}, (50.0,)),
    "T / τ of 10^12": ("gread-bs", {"step_size": 1e-9}, (1000.0,)),
}


@SCRIPTS.register("stiff")
def stiff(times: int | None) -> list[Row]:
    """Run every case on several graphs, with every kind of solver, alone and in a population."""
    return [_row(tried, *case) for tried, case in CASES.items()]


def _row(tried: str, model: str, hyper: dict[str, object], ends: tuple[float, ...]) -> Row:
    results = [
        _bounded(_spec(model, dataset, options, solver, {**hyper, "time": end}))
        for dataset, options in GRAPHS
        for solver in SOLVERS
        for end in ends
    ]
    results += _bounded_together(model, hyper, ends)
    counts = {
        status: sum(result.status == status for result in results)
        for status in ("ok", "diverged", "failed")
    }
    steps = [float(step[1]) for r in results if (step := re.search(r"up to ([\d.e-]+)", r.message))]
    found = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    if steps:
        found += (
            f"; {len(steps)} messages give the stable step, from {min(steps):g} to {max(steps):g}"
        )
    grows = sum("the equation itself grows" in result.message for result in results)
    found += f"; {grows} say that no step size helps" if grows else ""
    found += f"; the longest took {max(result.seconds for result in results):.1f} s"
    return Row(FAULT, MUST_HOLD, tried, len(results), found, "studies/soak/stiff.py")


def _spec(
    model: str, dataset: str, options: dict[str, object], solver: str, hyper: dict[str, object]
) -> RunSpec:
    settings = {"hidden_channels": 8, "step_size": 1.5, "solver": solver, **hyper}
    return RunSpec(
        dataset=dataset,
        model=model,
        hyper=settings,  # type: ignore[arg-type]
        train=TrainConfig(epochs=2, lr=0.05),
        options=options,  # type: ignore[arg-type]
        record=MODELS[model].records,
    )


def _bounded(spec: RunSpec) -> Result:
    begin = time.process_time()
    result = run(spec)
    assert time.process_time() - begin < SECONDS, spec
    _check(result)
    return result


def _bounded_together(
    model: str, hyper: dict[str, object], ends: tuple[float, ...]
) -> list[Result]:
    """Run as a population, on a GPU if there is one."""
    dataset, options = GRAPHS[0]
    if "step_size" in hyper:
        return []
    specs = [_spec(model, dataset, options, "rk4", {**hyper, "time": end}) for end in (1.0, *ends)]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    results = run_together(specs, device=device)
    for result in results:
        _check(result)
    return results


def _check(result: Result) -> None:
    """Check status, message and finite numbers."""
    assert result.status in ("ok", "diverged", "failed")
    text = result.to_json()
    assert "NaN" not in text.replace(result.message, "") and "Infinity" not in text
    assert (result.status == "ok") == (not result.message)
    assert (result.status == "failed") == (result.test is None)
