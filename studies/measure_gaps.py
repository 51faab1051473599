"""Investigate cells of Table 4 that are more than one deviation below the paper.

Options that the appendix does not specify are changed one at a time, and presumed errors of
settings are corrected, on the first three splits. Prints a Markdown table, which docs/gaps.md
explains. Run ``python studies/measure_gaps.py STORE [DEVICE] [WORKERS]`` in the repository's root.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

import gread
from gread.experiments.accuracy import PAPER, summary
from gread.experiments.protocol import GREAD
from gread.models.catalog import MODELS
from gread.runs.archive import ARCHIVES, read_results
from gread.runs.launch import launch
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore

SPLITS = range(3)
NONLINEAR = ("gread-f", "gread-ac", "gread-z")


@gread.REACTIONS.register("fb-published")
def fb_published(s: gread.State):
    """r(H) = H + Ã H: the published code's FB, and its FB* with vector β."""
    return 2 * s.h - s.lh


@gread.REACTIONS.register("fb*-published")
def fb_star_published(s: gread.State):
    """r(H) = 2 H + Ã H: the published code's FB* with scalar β."""
    return 3 * s.h - s.lh


def below(results: list[Result]) -> dict[tuple[str, str], tuple[float, float]]:
    """Cells more than one deviation below the paper, with our mean and deviation."""
    found = {}
    for model in dict.fromkeys(result.spec.model for result in results):
        ours = summary(result for result in results if result.spec.model == model)
        title = MODELS[model].title
        for dataset, (mean, deviation) in PAPER[title].items():
            number = ours.get(title, {}).get(dataset)
            if number is None or number[0] < mean - deviation:
                found[model, dataset] = number or (float("nan"),) * 2
    return found


def variants(spec: RunSpec) -> Iterator[tuple[str, RunSpec]]:
    """Alternatives to ``spec``, with their names."""
    hyper = dict(spec.hyper)

    def changed(**changes) -> RunSpec:
        return replace(spec, hyper=hyper | changes)

    if spec.model.startswith("gread-fb"):
        star = spec.model == "gread-fb*" and hyper["beta"] == "scalar"
        yield "published formula", replace(spec, model=f"gread-fb{'*' * star}-published")
    if spec.model == "gread-st":
        yield "detached source", changed(detach_source=True)
        if hyper["dropout"] > 0.9:
            yield "dropout 0.095", changed(dropout=hyper["dropout"] / 10)
    if spec.model in NONLINEAR:
        yield "τ / 4", changed(step_size=hyper["step_size"] / 4)
        for beta in {"scalar", "vector", "positive-vector"} - {hyper["beta"]}:
            yield f"{beta} β", changed(beta=beta)
        row = replace(spec, options={"normalize_features": True})
        yield "row-normalised", row
        yield "row-normalised, decay 0", replace(row, train=replace(spec.train, weight_decay=0.0))
    if spec.dataset != "squirrel":  # slow, and covered above
        yield "other decoder", changed(decoder={"mlp": "linear", "linear": "mlp"}[hyper["decoder"]])
        yield "other encoder", changed(encoder={"mlp": "linear", "linear": "mlp"}[hyper["encoder"]])
        yield "other ReLU on H(T)", changed(output_activation=not hyper["output_activation"])
        yield "other self loops", changed(self_loops=1 - hyper["self_loops"])


def line(results: list[Result]) -> str:
    """Validation and test accuracy, and the number of diverged runs."""
    known = [result for result in results if result.test is not None]
    if not known:
        return "all failed"
    lost = sum(result.status != "ok" for result in results)
    numbers = (100 * fmean(getattr(result, name) for result in known) for name in ("val", "test"))
    return "{:.1f} / {:.1f}".format(*numbers) + (f" ({lost} diverged)" if lost else "")


def main() -> None:
    folder, device, workers = (*sys.argv[1:], *("cpu", "1")[len(sys.argv) - 2 :])
    runs = read_results(ARCHIVES / "table-4.jsonl.xz")
    committed = [result for result in runs if result.spec.model in GREAD]
    cells = below(committed)
    plain: dict[tuple[str, str], list[Result]] = defaultdict(list)
    tried: dict[RunSpec, tuple[tuple[str, str], str]] = {}
    for result in committed:
        spec = result.spec
        cell = spec.model, spec.dataset
        if cell in cells and spec.split in SPLITS and spec.seed == 0:
            plain[cell].append(result)
            tried |= {other: (cell, name) for name, other in variants(spec)}
    store = ResultStore(folder)
    order = sorted(tried, key=lambda spec: tried[spec][1].startswith("other"))
    launch(order, store, devices=[device], workers=int(workers))
    found: dict[tuple[tuple[str, str], str], list[Result]] = defaultdict(list)
    for spec, key in tried.items():
        if (result := store.get(spec)) is not None:
            found[key].append(result)
    print("| cell | variant | validation / test |\n| --- | --- | --- |")
    for (model, dataset), results in plain.items():
        name = f"{MODELS[model].title} {dataset}"
        print(f"| **{name}** | as in the table | {line(results)} |")
        for (cell, variant), others in found.items():
            if cell == (model, dataset):
                print(f"| | {variant} | {line(others)} |")


if __name__ == "__main__":
    main()
