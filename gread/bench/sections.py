"""The sections of the benchmark; importing their files registers them."""

from gread.bench import costs, epochs, first, many, models, steps  # noqa: F401
from gread.bench.section import BENCHES as BENCHES
