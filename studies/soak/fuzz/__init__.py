"""Fuzz every parser and the command line: each case gives an error of gread or a valid result.

Hypothesis generates and shrinks cases; each finding becomes a test in
tests/studies/test_findings.py.
"""

import itertools
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from studies.soak.fuzz import arguments, files  # noqa: F401  # the imports register targets
from studies.soak.fuzz.targets import OURS, TARGETS, Target
from studies.soak.rows import SCRIPTS, Row

BATCH = 2_000
"""Number of cases of one Hypothesis run."""


def checked(found: Target, folder: Path, on_case: Callable[[], None] = lambda: None) -> Any:
    """Hypothesis test of a target."""

    def case(drawn: Any) -> None:
        on_case()
        try:
            found.read(folder, drawn)
        except OURS as error:
            sentence = str(error)
            assert sentence and len(sentence) < 3000, sentence

    return given(found.cases)(case)


def batch(name: str, folder: Path, times: int, number: int) -> int:
    """Try a number of cases of a target, and return how many were run."""
    tried = 0

    def count() -> None:
        nonlocal tried
        tried += 1

    options = settings(
        max_examples=times,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seed(number)(options(checked(TARGETS[name], folder, count)))()
    return tried


@SCRIPTS.register("fuzz")
def main(times: int | None) -> Iterator[Row]:
    """Fuzz every target, each with ``times`` cases."""
    return (row(name, times) for name in TARGETS)


def row(name: str, times: int | None) -> Row:
    """Row of one target; a finding is printed in its shrunk form.

    Cases run in a separate process, because C libraries may crash it.
    """
    start, tried, wrong = perf_counter(), 0, ""
    wanted = times or TARGETS[name].times
    with (
        tempfile.TemporaryDirectory() as place,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process,
    ):
        for number in itertools.count():
            some = min(BATCH, wanted - tried)
            try:
                tried += process.submit(batch, name, Path(place), some, number).result()
            except Exception as error:
                wrong = f"DID NOT HOLD: {type(error).__name__}: {error!s:.200}"
                traceback.print_exc()
            if wrong or tried >= wanted:
                break
    print(f"{name}: {tried:,} in {perf_counter() - start:.0f} s {wrong}", flush=True)
    return Row(
        "Fuzzing",
        "no traceback other than our errors",
        name,
        tried,
        wrong or "only our errors or valid results",
        "studies/soak/fuzz/__init__.py",
    )
