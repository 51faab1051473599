"""Hostile files are rejected or read as plain values.

``python -m studies.soak hostile`` runs these and three slow cases in monitored processes.
"""

import pytest

from studies.soak.hostile import GROUPS, HARMLESS, OURS
from studies.soak.hostile.spoiled import EXECUTED
from studies.soak.hostile.tables import LARGE

SLOW = (*LARGE, "a CSV file with 10,000 columns of two letters")
CASES = {name: case for group in GROUPS for name, case in group.cases.items() if name not in SLOW}


@pytest.mark.filterwarnings("ignore:.*PyExtensionType")  # PyArrow before 21
@pytest.mark.parametrize("name", CASES)
def test_hostile_file_is_rejected_or_read_without_code_execution(name, tmp_path, monkeypatch):
    monkeypatch.setenv("GREAD_MIRROR", "http://127.0.0.1:9")
    refused = False
    try:
        CASES[name](tmp_path)
    except OURS as error:
        refused = True
        assert len(str(error)) < 1000
    assert refused == (name not in HARMLESS)
    assert not (tmp_path / EXECUTED).exists()
