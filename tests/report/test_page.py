"""The page in a real browser, opened from a file.

These tests are slow, because a browser takes seconds to start. test_charts.py and test_tables.py
test charts and tables without one.
"""

import json
import re

import pytest

from gread.experiments.artefact import SCALES, show
from gread.experiments.questions import ARTEFACTS
from gread.report.charts import COLOURS, Axis, Chart, Frame, Image, Panel, Series
from gread.report.claims import Claim
from gread.report.page import Section, page
from gread.report.tables import Cell, TextTable
from tests.experiments.test_artefacts import FROM_FILES, results_of

pytestmark = pytest.mark.slow

HIDDEN = Axis(hidden=True)
EVIL = '</script><script>window.broken = 1</script><img src="x" onerror="window.broken = 1">'


def lines(*labels):
    return tuple(
        Series(label, (0.0, 1.0, 2.0), (1.0, 10.0 * k, 0.0), (0.5,) * 3, (20.0,) * 3, colour=colour)
        for k, (label, colour) in enumerate(zip(labels, COLOURS, strict=False), 1)
    )


def image(value):
    return Panel(image=Image(((value, 0.5), (0.25, 1.0)), 0.0, 1.0, "state"), x=HIDDEN, y=HIDDEN)


def points(*x):
    return Panel(series=(Series("class 0", x, (0.0, 1.0), mark="points"),), x=HIDDEN, y=HIDDEN)


def rows(*texts):
    return tuple(tuple(map(Cell, row)) for row in texts)


def small():
    """Page with every kind of artefact."""
    energy = Panel(series=lines("GCN", "GREAD-BS"), x=Axis("layer"), y=Axis("energy", log=True))
    table = TextTable(
        "Table 4: accuracy",
        ("model", "texas", "cora"),
        rows(
            ("B", "70.00 ± 1.00", "9.00 ± 1.00"),
            ("– paper", "99.00 ± 1.00", "1.00 ± 1.00"),
            ("A", "80.00 ± 1.00", "80.00 ± 1.00"),
            ("C", "missing", "−5.00"),
        ),
        claims=(Claim("B is the best", "A is", holds=False),),
    )
    images = (Frame("t = 0", (image(0.0),)), Frame("t = 5", (image(0.75),)))
    paths = (Frame("t = 0", (points(0.0, 1.0),)), Frame("t = 1", (points(3.0, 1.0),)))
    evil = TextTable(EVIL, (EVIL, "b"), rows((EVIL, EVIL)), EVIL, (Claim(EVIL, EVIL, holds=True),))
    shown = {
        "figure-1": Chart("Figure 1: grid", (image(0.0),), frames=images),
        "figure-2": Chart("Figure 2: nodes", (points(0.0, 1.0),), frames=paths),
        "figure-5": Chart("Figure 5: energy", (energy,)),
        "table-4": table,
        "figure-6": Chart("Figure 6: homophily", (energy, Panel("Film", remark="no runs yet")), 2),
        "table-5": TextTable("Table 5: names", ("form",), rows(("A",), ("– of A",))),
        "table-6": TextTable("Table 6: no rows", ("model", "texas"), ()),
        "evil": evil,
        "evil-lines": Chart(EVIL, (Panel(EVIL, lines(EVIL, "other"), remark=EVIL),)),
    }
    sections = [
        Section(name, value, 1, 2, "full", f"gread reproduce {name}")
        for name, value in shown.items()
    ]
    sections.append(
        Section("figure-7", Chart("Figure 7: T", ()), 0, 90, "full", "gread reproduce figure-7")
    )
    return page(sections, title="Report", about=EVIL)


def everything():
    """Page of all artefacts that need no files, from generated results."""
    sections = []
    for name, artefact in ARTEFACTS.items():
        if name not in FROM_FILES:
            plan = SCALES["quick"](artefact)._replace(note="")
            shown = show(artefact, plan, results_of(plan.specs))
            sections.append(Section(name, shown, len(plan.specs), len(plan.specs), "quick", ""))
    return page(sections, title="Report", about="All.")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    found = {"small": folder / "small.html", "everything": folder / "everything.html"}
    found["small"].write_text(small(), encoding="utf-8")
    found["everything"].write_text(everything(), encoding="utf-8")
    return found


@pytest.fixture
def visit(tabs, files):
    """Function that opens a page; the test fails on console messages and foreign requests."""

    def open_page(name="small", size=(1300, 1100), **options):
        return tabs.open(files[name].as_uri(), size=size, **options)

    return open_page


SCROLL = """drawn => {
  drawn.scrollIntoView({block: 'center', behavior: 'instant'});
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
"""Script that resolves after the scroll event, which hides the tooltip."""


def hover(tab, drawing, across, down):
    drawing.evaluate(SCROLL)
    box = drawing.bounding_box()
    tab.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
    tooltip = tab.locator("#tooltip")
    tooltip.wait_for()
    return tooltip.inner_text()


def brightness(tab, element):
    """Brightness of the background of an element, 0 to 255."""
    colour = tab.evaluate(f"getComputedStyle(document.querySelector('{element}')).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


@pytest.mark.parametrize("width", [1300, 820, 360])
def test_all_artefacts_are_shown_and_fit_the_page_width(visit, width):
    tab = visit("everything", size=(width, 800))
    for name in set(ARTEFACTS) - set(FROM_FILES):
        assert tab.locator(f"#{name} :is(.drawn svg, table)").count(), name
        assert tab.locator(f"nav a[href='#{name}']").count() == 1
    wide, screen = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= screen == width


def test_hover_shows_the_values_in_a_tooltip(visit):
    tab = visit()
    text = hover(tab, tab.locator("#figure-5 .drawing"), 0.5, 0.3)
    assert "layer 1" in text
    assert "GREAD-BS\n20 (0.5 to 20)" in text
    assert "state\n0.25" in hover(tab, tab.locator("#figure-1 .drawing").first, 0.25, 0.75)
    assert "class 0" in hover(tab, tab.locator("#figure-2 .drawing").first, 0.05, 0.95)
    tab.mouse.move(2, 2)
    assert tab.locator("#tooltip").is_hidden()


def test_tap_shows_the_tooltip_until_another_element_is_tapped(visit):
    tab = visit(has_touch=True, size=(390, 800))
    drawing = tab.locator("#figure-5 .drawing")
    drawing.evaluate(SCROLL)
    drawing.tap()
    assert "GREAD-BS" in tab.locator("#tooltip").inner_text()
    assert tab.locator("#tooltip").is_visible()
    tab.locator("#figure-5 .runs").tap()
    assert tab.locator("#tooltip").is_hidden()


def test_legend_buttons_hide_show_and_isolate_models(visit):
    tab = visit()
    line = tab.locator("#figure-5 g.line[data-label='GCN']")
    button = tab.locator("#figure-5 .legend button[data-label='GCN']")
    assert line.count() == 1
    button.click()
    assert line.count() == 0
    assert button.get_attribute("aria-pressed") == "false"
    assert "GCN" not in hover(tab, tab.locator("#figure-5 .drawing"), 0.5, 0.3)
    tab.locator("#figure-5 .legend .all").click()
    assert line.count() == 1
    button.click(modifiers=["Shift"])
    assert line.count() == 1
    assert tab.locator("#figure-5 g.line").count() == 1


def test_slider_and_play_button_change_the_time(visit):
    tab = visit()
    pictures = {}
    for name, drawn in (("figure-1", ".film image"), ("figure-2", ".film .points")):
        slider = tab.locator(f"#{name} input[type=range]")
        what = {"figure-1": "href", "figure-2": "d"}[name]
        pictures[name] = tab.locator(f"#{name} {drawn}").get_attribute(what)
        slider.focus()
        slider.press("ArrowRight")
        tab.wait_for_timeout(600)
        assert tab.locator(f"#{name} output").inner_text() in ("t = 5", "t = 1")
        assert tab.locator(f"#{name} {drawn}").get_attribute(what) != pictures[name]
    tab.locator("#figure-1 .play").click()
    assert tab.locator("#figure-1 output").inner_text() == "t = 0"


def test_table_sorting_keeps_paper_rows_with_their_models(visit):
    tab = visit()

    def first_column():
        return tab.locator("#table-4 tbody th").all_inner_texts()

    def head(name):
        return tab.locator("#table-4 thead button", has_text=name)

    printed = ["B", "– paper", "A", "C"]
    assert first_column() == printed
    head("cora").click()
    assert first_column() == ["A", "B", "– paper", "C"]
    head("cora").click()
    assert first_column() == ["C", "B", "– paper", "A"]
    head("cora").click()
    assert first_column() == printed
    head("texas").click()
    assert first_column() == ["A", "B", "– paper", "C"]  # missing values come last
    head("model").click()
    assert first_column() == ["A", "B", "– paper", "C"]
    tab.locator("#table-4 .beside input").click()
    assert tab.locator("#table-4 tbody tr:visible").count() == 3


def test_tables_of_names_and_tables_without_rows_are_shown(visit):
    tab = visit()
    assert tab.locator("#table-5 tbody th").all_inner_texts() == ["A", "– of A"]
    assert tab.locator("#table-6 thead button").all_inner_texts() == ["model", "texas"]
    assert tab.locator("#table-6 tbody tr").count() == 0


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_theme_follows_the_system_until_the_switch_overrides_it(visit, scheme, dark):
    tab = visit(color_scheme=scheme)
    assert (brightness(tab, "body") < 60) == dark
    tab.locator("#theme").click()  # light
    assert brightness(tab, "body") > 200
    tab.locator("#theme").click()  # dark
    assert brightness(tab, "body") < 60
    tab.reload()
    assert brightness(tab, "body") < 60
    tab.locator("#theme").click()  # as the system
    assert (brightness(tab, "body") < 60) == dark


def test_html_in_the_data_is_escaped(visit):
    tab = visit()
    assert tab.evaluate("window.broken") is None
    assert EVIL in tab.locator("#evil td").inner_text()
    assert EVIL in tab.locator("#evil-lines .legend button").first.inner_text()


def test_failed_claims_are_listed_first_and_link_to_their_section(visit):
    tab = visit()
    first = tab.locator("#claims li").first
    assert "Disagrees" in first.inner_text()
    assert first.locator("a").get_attribute("href") == "#table-4"


def test_missing_runs_are_shown_with_the_command_to_compute_them(visit):
    tab = visit()
    assert "gread reproduce figure-7" in tab.locator("#figure-7").inner_text()
    partial = tab.locator("#figure-5").inner_text()
    assert "1 of 2 runs; compute the others with: gread reproduce figure-5" in partial
    assert tab.locator("#figure-6 svg[role=img]").count() == 1
    assert "no runs yet: Film" in tab.locator("#figure-6").inner_text()


def test_the_page_is_one_file_with_its_data_as_json():
    text = small()
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    value = json.loads(data[1])
    assert [section["name"] for section in value["sections"]][:2] == ["figure-1", "figure-2"]
    assert value["about"] == EVIL
