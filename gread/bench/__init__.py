"""What things cost: measured in one process, side by side, and told as ratios."""

from typing import TYPE_CHECKING

from gread.base.lazy import lazy

if TYPE_CHECKING:
    from gread.bench.machine import machine as machine
    from gread.bench.section import BENCHES as BENCHES
    from gread.bench.section import Section as Section
    from gread.bench.section import measure as measure
    from gread.bench.section import to_json as to_json
    from gread.bench.section import write as write

lazy(__name__)
