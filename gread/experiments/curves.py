"""Curves of results over a varied quantity, and the style of each model in figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import fmean, pstdev
from typing import NamedTuple, TypeVar

from gread.data.catalog import DATASETS as CATALOGUE
from gread.models.catalog import MODELS
from gread.report.charts import COLOURS, Series
from gread.report.claims import listed
from gread.runs.result import Result


class Style(NamedTuple):
    """Style of a model in all figures."""

    colour: str
    marker: str
    dashed: bool = False


MARKERS = ("o", "s", "^", "D", "v", "P", "X")

SOLID = [f"GREAD-{letter}" for letter in ("BS", "F", "AC", "Z", "ST", "FB", "FB*")]
DASHED = {"GRAND": 3, "GCN": 1, "GAT": 2, "H2GCN": 4, "MLP": 6, "GRAND++": 5}
"""Baselines of the paper's figures, and the indices of their colours."""

STYLES = dict(zip(SOLID, map(Style, COLOURS, MARKERS), strict=True))
for (_title, _colour), _marker in zip(DASHED.items(), MARKERS, strict=False):
    STYLES[_title] = Style(COLOURS[_colour], _marker, dashed=True)

K = TypeVar("K", bound=Hashable)


def title_of(result: Result) -> str:
    """Title of the model, as in the paper."""
    return MODELS[result.spec.model].title


def style_of(title: str) -> Style:
    """Style of a model; from its place in the catalogue if `STYLES` does not have it."""
    if title in STYLES:
        return STYLES[title]
    place = [entry.title for entry in MODELS.values()].index(title)
    return Style(COLOURS[place % len(COLOURS)], MARKERS[place // len(COLOURS) % len(MARKERS)], True)


class Measured(list[float]):
    """Test accuracies in percent of the runs that have one.

    Attributes:
        failed: Number of runs that have none.
    """

    failed = 0

    @property
    def whole(self) -> bool:
        """Whether there are runs, and none failed."""
        return bool(self) and not self.failed


def accuracies(pairs: Iterable[tuple[K, Result]]) -> dict[K, Measured]:
    """Group test accuracies by key."""
    found: dict[K, Measured] = {}
    for key, result in pairs:
        own = found.setdefault(key, Measured())
        if result.test is None:
            own.failed += 1
        else:
            own.append(100 * result.test)
    return found


def means_of(found: Mapping[K, Measured]) -> dict[K, float]:
    """Comparable means at printed precision, of models with a number for every run.

    A mean over only the surviving runs overestimates a model. Digits that are not printed are
    noise, and must not decide a rank.
    """
    return {key: round(fmean(values), 2) for key, values in found.items() if values.whole}


NO_MEMORY = "out of memory"
"""First words of the message of a run that does not fit into memory."""


def note_on_failed(results: Sequence[Result]) -> str:
    """Sentences about runs without an accuracy, if there are any, to follow another."""
    failed = [result for result in results if result.test is None]
    too_large = sum(result.message.startswith(NO_MEMORY) for result in failed)
    counts = {
        "diverged in their first epoch": len(failed) - too_large,
        f"ran {NO_MEMORY}": too_large,
    }
    return "".join(
        f" {count} of {len(results)} runs {cause} and are not counted."
        for cause, count in counts.items()
        if count
    )


def note_on_fewer(found: Mapping[K, Measured]) -> str:
    """A sentence about means from which failed runs are missing, if there are any."""
    if not any(values and values.failed for values in found.values()):
        return ""
    return " A mean over fewer runs is marked and not compared."


def note_on_diverged(results: Sequence[Result]) -> str:
    """A sentence about runs that diverged later, with the models and graphs, to follow another."""
    counts = Counter((title_of(r), r.spec.dataset) for r in results if r.status == "diverged")
    if not counts:
        return ""
    named = listed(f"{title} on {CATALOGUE[d].title} ({n})" for (title, d), n in counts.items())
    return f" Diverged runs count with their best epoch before the divergence: {named}."


def splits_of(results: Iterable[Result]) -> str:
    """Number of splits as text, with the datasets that have fewer or more than most."""
    splits: dict[str, set[int]] = {}
    for result in results:
        splits.setdefault(result.spec.dataset, set()).add(result.spec.split)
    counts = {dataset: len(found) for dataset, found in splits.items()}
    usual = max(counts.values(), key=list(counts.values()).count, default=0)
    fewer = sorted(set(counts.values()) - {usual}, reverse=True)
    others = ", ".join(
        f"{count} on {listed(CATALOGUE[d].title for d, own in counts.items() if own == count)}"
        for count in fewer
    )
    text = f"{usual} split" if usual == 1 else f"{usual} splits"
    return f"{text} ({others})" if others else text


def curve(title: str, samples: Mapping[float, Sequence[float]]) -> Series:
    """Mean at every place, in a band of one standard deviation; a gap if all runs failed."""
    places = sorted(samples) if any(samples.values()) else []
    y = [fmean(samples[x]) if samples[x] else math.nan for x in places]
    spread = [pstdev(samples[x]) if samples[x] else math.nan for x in places]
    several = any(len(values) > 1 for values in samples.values())
    pairs = list(zip(y, spread, strict=True)) if several else []
    return styled(title, places, y, [a - b for a, b in pairs], [a + b for a, b in pairs])


def median_curve(title: str, rows: Sequence[Sequence[float]]) -> Series:
    """Median over rows of equal length at places 0, 1, 2, ..., in a band of the middle half."""
    import numpy as np

    middle, *band = np.quantile(np.array(rows), [0.5, 0.25, 0.75], axis=0).tolist()
    return styled(title, range(len(middle)), middle, *(band if len(rows) > 1 else ()))


def styled(
    title: str,
    x: Iterable[float],
    y: Iterable[float],
    low: Iterable[float] = (),
    high: Iterable[float] = (),
) -> Series:
    """Series in the style of its model."""
    style, places = style_of(title), tuple(map(float, x))
    if len(places) > 15:
        style = style._replace(marker="")
    return Series(title, places, tuple(y), tuple(low), tuple(high), **style._asdict())
