"""docs/reliability.md agrees with the recorded results."""

import pytest

from studies.soak.__main__ import load
from studies.soak.mutants import mutants
from studies.soak.rows import PAGE, ROOT, SCRIPTS, Row, page, stored

ROWS = [row for _, _, _, rows in stored() for row in rows]


def test_reliability_page_equals_the_rendered_stored_rows():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m studies.soak NAME"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.tried)
def test_every_row_references_an_existing_script_and_test(row: Row):
    path, _, name = row.script.partition("::")
    assert (ROOT / path).is_file()
    assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
    assert row.times > 0
    assert row.fault and row.must_hold and row.tried and row.found


def test_every_script_has_its_rows():
    load()
    assert {name for name, *_ in stored()} == set(SCRIPTS)


def test_no_stored_row_records_a_violated_guarantee():
    assert not [row for row in ROWS if "DID NOT HOLD" in row.found or "WRONG" in row.found]


def test_at_least_1e5_cases_were_fuzzed_and_100_processes_killed():
    times = {}
    for row in ROWS:
        times[row.fault] = times.get(row.fault, 0) + row.times
    assert times["Fuzzing"] >= 1e5
    assert times["`kill -9` at random moments"] >= 100


SOURCE = """
def area(width: float = 2.0) -> float:
    '''Of a square.'''
    if width < 0 or not width:
        raise ValueError(f"no {width + 1}")
    return width * width
"""


def test_mutants_change_computations_but_not_docstrings_or_messages(tmp_path, monkeypatch):
    (tmp_path / "area.py").write_text(SOURCE)
    monkeypatch.setattr("studies.soak.mutants.ROOT", tmp_path)
    found = list(mutants("area.py"))
    changes = [mutant.change for mutant in found]
    assert "area: width < 0 → width <= 0" in changes
    assert "area: width * width → width / width" in changes
    assert "area: return width * width → return None" in changes
    assert "module: width: float=2.0 → width: float=3.0" not in changes
    assert "area: width: float=2.0 → width: float=3.0" in changes
    assert "area: width < 0 or not width → width < 0 and (not width)" in changes
    assert all("Of a square" in mutant.source for mutant in found)  # text is not mutated
    assert all("no {width + 1}" in mutant.source or "pass" in mutant.source for mutant in found)
    assert len({mutant.source for mutant in found}) == len(changes) == len(set(changes))
