"""Fuzzing of every parser and command; ``python -m studies.soak fuzz`` runs 10^5 cases."""

import warnings

import pytest
from hypothesis import HealthCheck, settings

from studies.soak.fuzz import TARGETS, checked

SLOW = {
    "command lines": 20,
    "graphs with arbitrary names, diagnosed and fitted by the command": 3,
    "Parquet with arbitrary columns": 10,
    "valid files of six formats with changed bytes": 15,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TARGETS)
def test_fuzzed_input_gives_expected_errors_or_valid_results(name, tmp_path):
    case = checked(TARGETS[name], tmp_path)
    few = settings(
        max_examples=SLOW.get(name, 30),
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    with warnings.catch_warnings():
        few(case)()
