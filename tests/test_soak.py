"""The page of reliability is what was tried."""

import pytest

from soak.rows import PAGE, ROOT, Row, page, stored

ROWS = [row for _, _, _, rows in stored() for row in rows]


def test_the_page_is_what_the_stored_rows_render_to():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m soak NAME"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.tried)
def test_every_row_can_be_tried_again(row: Row):
    path, _, name = row.script.partition("::")
    assert (ROOT / path).is_file()
    assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
    assert row.times > 0
    assert row.fault and row.must_hold and row.tried and row.found


@pytest.mark.parametrize("name", [name for name, *_ in stored()])
def test_every_file_of_rows_has_its_script(name):
    scripts = (ROOT / "soak").rglob("*.py")
    assert any(f'SCRIPTS.register("{name}")' in path.read_text("utf-8") for path in scripts)
