"""Comparison of two outputs of gread bench."""

import json

from studies.compare_benchmarks import table, times


def output(path, sections):
    tables = {name: {"title": name, "rows": rows, "note": ""} for name, rows in sections.items()}
    path.write_text(json.dumps({"machine": {}, "sections": tables}))
    return str(path)


def test_common_rows_are_compared_even_if_required_ratios_differ(tmp_path):
    row = {"work": "Cora", "d": 64, "ratio": 2.0, "ours ms": 3.0, "naive ms": 6.0, "at least": 12}
    faster = row | {"ours ms": 1.5, "at least": 20}
    before = output(tmp_path / "before.json", {"headline": [row, row | {"d": 8}], "shares": [row]})
    after = output(tmp_path / "after.json", {"headline": [faster], "scale": [row]})
    rows = table(times(before), times(after)).rows
    assert [[cell.text for cell in row] for row in rows] == [
        ["headline", "Cora, 64", "ours ms", "3", "1.5", "0.50"],
        ["headline", "Cora, 64", "naive ms", "6", "6", "1.00"],
    ]
