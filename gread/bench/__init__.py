"""Benchmarks: costs measured in one process, in turn, and reported as ratios."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.bench.doctor import Finding as Finding, examine as examine
    from gread.bench.section import (
        Benchmark as Benchmark,
        Section as Section,
        bench as bench,
        measure as measure,
    )
    from gread.bench.sections import BENCHES as BENCHES

lazy(__name__)
