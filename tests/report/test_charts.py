import json
import math

import pytest

from gread.report.charts import MARKS, Axis, Chart, Image, Panel, Series


@pytest.fixture
def chart():
    line = Series("a", (0.0, 1.0), (1.0, math.inf), (0.5, math.nan), (1.5, 2.0))
    image = Image(((0.0, 1.0), (1 / 3, 2.0)), 0.0, 2.0, "state")
    return Chart(
        "title",
        (
            Panel("one", (line, Series("b", (), ()))),
            Panel("two", (line,), y=Axis("y", log=True)),
            Panel("three", image=image),
        ),
        columns=3,
        note="note",
    )


def test_chart_json_is_complete_and_strictly_valid(chart):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    value = json.loads(chart.to_json(), parse_constant=refuse)
    assert (value["title"], value["columns"], value["note"]) == ("title", 3, "note")
    first, second, third = value["panels"]
    assert first["series"][0]["y"] == [1.0, None]
    assert first["series"][0]["low"] == [0.5, None]
    assert second["y"] == {"label": "y", "log": True, "limits": None, "ticks": [], "hidden": False}
    assert third["image"]["rows"] == [[0.0, 1.0], [0.333333, 2.0]]


def test_a_label_is_in_the_legend_once(chart):
    assert list(chart.legend) == ["a", "b"]


@pytest.mark.parametrize(
    "wrong", [{"y": (1.0,)}, {"low": (1.0, 2.0)}, {"low": (1.0,), "high": (2.0,)}, {"mark": "pie"}]
)
def test_inconsistent_series_raises_an_assertion_error(wrong):
    good = {"label": "a", "x": (0.0, 1.0), "y": (1.0, 2.0), "mark": MARKS[0]}
    Series(**good)
    with pytest.raises(AssertionError):
        Series(**(good | wrong))


def test_panel_without_points_has_a_remark():
    empty, line = Series("a", (), ()), Series("b", (0.0,), (1.0,))
    assert Panel.of("title", [empty], Axis(), Axis()).remark == "no runs yet"
    assert Panel.of("title", [empty, line], Axis("x"), Axis("y")) == Panel(
        "title", (empty, line), x=Axis("x"), y=Axis("y")
    )
