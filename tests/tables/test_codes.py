import numpy as np
import pytest

from gread.tables.codes import are_codes

RNG = np.random.default_rng(0)


def uneven(count, rows):
    """Codes such as schools, in random order and with unequal numbers of rows."""
    shares = RNG.permutation(1 / np.arange(1, count + 1))
    return RNG.choice(np.arange(count) * 7, p=shares / shares.sum(), size=rows)


CODES = {
    "four codes": RNG.choice([3, 17, 21, 40], size=300),
    "eight codes": RNG.permutation(np.repeat(np.arange(8), [90, 10, 70, 5, 80, 20, 60, 9])),
    "as floats": RNG.choice([3.0, 17.0, 21.0], size=300),
    "schools": uneven(300, 5000),
}
QUANTITIES = {
    "nothing": np.zeros(0),
    "flag": RNG.integers(0, 2, 300),
    "age": np.clip(RNG.normal(40, 12, 3000), 18, 80).astype(int),
    "few ages": np.clip(RNG.normal(40, 12, 100), 18, 80).astype(int),
    "counts": RNG.poisson(5, 1000),
    "rare counts": RNG.poisson(0.2, 1000),
    "years": 2020 - RNG.exponential(6, 5000).astype(int),
    "scores": RNG.integers(0, 101, 3000),
    "money": np.rint(RNG.lognormal(5, 1, 3000)),
    "fractions": RNG.choice([0.5, 1.5, 2.5], size=300),
    "ids": np.arange(300),
}


@pytest.mark.parametrize("values", CODES.values(), ids=CODES)
def test_code_columns_are_detected_as_codes(values):
    assert are_codes(values)


@pytest.mark.parametrize("values", QUANTITIES.values(), ids=QUANTITIES)
def test_quantities_are_not_detected_as_codes(values):
    assert not are_codes(values)
