"""The explorer in a real browser, from a server and from a file.

These tests are slow, because a browser takes seconds to start. test_numbers.py, test_server.py and
test_trained.py test the content of the page without one.
"""

import threading

import pytest
from typer.testing import CliRunner

import gread
from gread.cli import app
from gread.dynamics.reactions import REACTIONS, Terms, made_of
from gread.experiments.protocol import runs_of
from gread.explorer.leaderboard import leaderboard
from gread.explorer.page import page, reactions
from gread.explorer.server import ExplorerServer, Runs
from gread.explorer.trained import portrait_of_folder
from gread.runs.result import Result
from tests.explorer.test_server import SPEC

pytestmark = pytest.mark.slow

EVIL = "</script><img src=x onerror='window.broken = 1'>"
PHONE = {"size": (390, 844), "has_touch": True}
SMALL = "#view=playground&n=100&T=10&graph=grid"


@pytest.fixture(scope="module")
def board():
    specs = [*runs_of("gread-bs", "texas")[:3], *runs_of("gread-fb", "texas")[:3]]
    return leaderboard([Result(spec, "ok", test=0.8 + 0.01 * k) for k, spec in enumerate(specs)])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "folder"
    data = gread.load("csbm", num_nodes=80, homophily=0.8, degree=8)
    gread.GraphClassifier(settings={"epochs": 3, "hidden_channels": 8}).fit(data).save(folder)
    found = portrait_of_folder(folder)
    return found | {"labels": ["no", EVIL]}


@pytest.fixture(scope="module")
def exported(tmp_path_factory, board, trained):
    """URL of the page in a file."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(page(board, portraits=[trained]), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def served(board):
    """URL of a server with one stored run."""
    runs = Runs([Result(SPEC, "ok", test=0.5, val=0.5)])
    text = page(board, runs=runs.listed(), served=True)
    with ExplorerServer(text, runs, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


@pytest.fixture
def visit(tabs, exported):
    """Function that opens a page; fails on requests to other hosts and on console messages."""

    def open_page(link=SMALL, address=exported, size=(1400, 900), **options):
        tab = tabs.open(address, link, size=size, **options)
        other = "view=model" in link or "view=leaderboard" in link
        drawn = "[role=tab]" if other else ".playground .clock:not(:empty)"
        tab.wait_for_selector(drawn, state="attached")
        return tab

    return open_page


def clock(tab):
    return float(tab.locator(".playground .clock").inner_text().removeprefix("t = "))


def until(tab, time):
    """Wait until the clock passes ``time``.

    The clock is polled, because the page forbids the ``eval`` that Playwright uses to wait.
    """
    for _ in range(200):
        if clock(tab) > time:
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"t = {clock(tab)} after ten seconds")


def choose(tab, label, value):
    tab.get_by_label(label, exact=True).select_option(value)


def slide(tab, label, value):
    slider = tab.get_by_label(label, exact=True)
    slider.evaluate("(input, value) => { input.value = value; }", value)
    slider.dispatch_event("input")


def rest(tab):
    """Wait until the page is idle, and return its status text."""
    tab.wait_for_timeout(150)
    return tab.locator(".spoken").text_content()


def energy(tab, process):
    said = next(part for part in rest(tab).split(";") if process in part)
    text = said.split("energy ")[1].split(",")[0].replace("−", "-").replace("·10", "e")
    return float(text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))


def picture(tab, which=1):
    return tab.locator(".stage canvas:nth-child(2)").nth(which).evaluate("c => c.toDataURL()")


def link(tab):
    tab.wait_for_timeout(400)
    return tab.evaluate("location.hash")


def test_reaction_keeps_more_dirichlet_energy_than_diffusion(visit):
    tab = visit("")
    assert tab.locator(".stages figcaption").all_inner_texts() == [
        "diffusion",
        "Blurring-sharpening (BS)",
    ]
    tab.get_by_role("button", name="play").click()
    until(tab, 5)
    tab.get_by_role("button", name="pause").click()
    assert energy(tab, "Blurring") > 2 * energy(tab, "diffusion")
    assert tab.locator(".measures svg[role=img]").count() == 3
    assert "frames/s" in tab.locator(".rate").inner_text()


@pytest.mark.parametrize("reaction", reactions(), ids=lambda found: found["name"])
def test_each_reaction_differs_from_diffusion_and_shows_its_formula(visit, reaction):
    tab = visit(SMALL + "&start=spot&beta=0.5")
    choose(tab, "reaction r(H)", reaction["name"])
    assert tab.locator(".stages figcaption").nth(1).inner_text() == reaction["title"]
    slide(tab, "time t", "20")
    rest(tab)
    assert clock(tab) == 5
    assert picture(tab, 0) != picture(tab, 1)
    assert reaction["formula"].split(" = ")[-1] in tab.locator(".equation").inner_text()


def test_seeking_back_and_forth_restores_the_same_states(visit):
    tab = visit()
    first = picture(tab)
    slide(tab, "time t", "30")
    rest(tab)
    assert clock(tab) == 7.5
    later = picture(tab)
    assert later != first
    slide(tab, "time t", "0")
    rest(tab)
    assert picture(tab) == first
    slide(tab, "time t", "30")
    rest(tab)
    assert picture(tab) == later
    tab.get_by_label("one step forward").click()
    rest(tab)
    assert clock(tab) == 7.75


def test_keys_play_step_and_paint(visit):
    tab = visit()
    tab.keyboard.press("ArrowRight")
    rest(tab)
    assert clock(tab) == 0.25
    tab.keyboard.press("r")
    rest(tab)
    assert clock(tab) == 0
    tab.keyboard.press("Space")
    until(tab, 0.5)
    tab.keyboard.press("Space")
    tab.keyboard.press("r")
    rest(tab)
    before = picture(tab)
    tab.keyboard.press("p")
    tab.locator(".stage canvas:nth-child(2)").nth(1).focus()
    for key in ("ArrowLeft", "ArrowUp", "Enter"):
        tab.keyboard.press(key)
    rest(tab)
    assert picture(tab) != before
    assert "strokes=" in link(tab)


def test_brush_strokes_change_the_state_and_are_restored_from_the_link(visit):
    tab = visit(SMALL + "&start=empty")
    assert tab.get_by_role("button", name="paint").get_attribute("aria-pressed") == "true"
    box = tab.locator(".stage").nth(1).bounding_box()
    before = picture(tab)
    tab.mouse.move(box["x"] + 100, box["y"] + 100)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 200, box["y"] + 160, steps=5)
    tab.mouse.up()
    rest(tab)
    assert picture(tab) != before
    slide(tab, "time t", "8")
    rest(tab)
    shared, shown = link(tab), picture(tab)
    other = visit(shared)
    rest(other)
    assert picture(other) == shown
    assert clock(other) == 2


def test_link_restores_every_playground_setting(visit):
    asked = {
        "graph": "sbm",
        "n": "120",
        "degree": "6",
        "homophily": "0.15",
        "blocks": "3",
        "seed": "7",
        "normalization": "symmetric",
        "loops": "1",
        "start": "classes",
        "channels": "2",
        "reaction": "fb*",
        "alpha": "0.5,1",
        "beta": "-0.3,0.6",
        "tau": "0.2",
        "solver": "heun",
        "time": "12",
        "step": "17",
        "look": "channels",
        "palette": "cividis",
        "colours": "now",
        "speed": "4",
    }
    tab = visit("#view=playground&" + "&".join(f"{k}={v}" for k, v in asked.items()))
    rest(tab)
    assert clock(tab) == 3.4
    found = dict(part.split("=") for part in link(tab)[1:].replace("%2C", ",").split("&"))
    assert {name: found[name] for name in asked} == asked
    again = visit(link(tab))
    rest(again)
    assert picture(again, 0) == picture(tab, 0)
    assert picture(again, 1) == picture(tab, 1)
    assert again.locator(".stage").count() == 2


def test_invalid_link_parameters_are_reported_and_ignored(visit):
    tab = visit("#view=playground&graph=torus&n=1e99&__proto__=1&strokes=a~b&tau=-1&beta=NaN")
    said = tab.get_by_role("alert").first.inner_text()
    for name in ("graph", "n", "__proto__", "strokes", "tau", "beta"):
        assert name in said
    assert tab.locator(".stage").count() == 2


def test_unstable_step_shows_a_warning_with_the_reason(visit):
    tab = visit(SMALL + "&tau=0.5")
    warning = tab.locator(".playground .scene .warning")
    rest(tab)
    assert warning.is_hidden()
    slide(tab, "step τ", "0")  # its slider is logarithmic: τ = 1
    slide(tab, "time t", "10")
    rest(tab)
    assert "The step is unstable: at λ = −1" in warning.inner_text()
    assert "choose τ ≤ 0.696" in warning.inner_text()


def test_state_overflow_stops_the_simulation_with_a_warning(visit):
    tab = visit(SMALL + "&reaction=ac&beta=-2&tau=1&time=100&solver=rk4")
    slide(tab, "time t", "100")
    rest(tab)
    assert "The states overflow at t =" in tab.locator(".playground .scene .warning").inner_text()
    assert clock(tab) < 100


GOOD = "source,target\n" + "\n".join(f"n{k},n{(k + 1) % 12}" for k in range(12))
DROP = """(target, [name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const how = { dataTransfer: data, bubbles: true, cancelable: true };
  target.dispatchEvent(new DragEvent("drop", how));
}"""


def drop(tab, name, text):
    tab.locator(".playground").evaluate(DROP, [name, text])
    tab.wait_for_timeout(300)


def test_dropped_graph_file_is_restored_from_the_link(visit):
    tab = visit()
    drop(tab, "ring.csv", GOOD)
    assert "12 nodes, 12 edges" in tab.locator(".facts").inner_text()
    slide(tab, "time t", "6")
    rest(tab)
    other = visit(link(tab))
    rest(other)
    assert "12 nodes, 12 edges" in other.locator(".facts").inner_text()
    assert picture(other) == picture(tab)


@pytest.mark.parametrize("text", ["a,b\nonly one\n" + "x", '{"nodes": 1}', "\x00\xff", "", EVIL])
def test_malformed_dropped_file_shows_a_warning_and_keeps_the_graph(visit, text):
    tab = visit()
    before = tab.locator(".facts").inner_text()
    drop(tab, f"{EVIL}.csv", text)
    trouble = tab.locator(".controls .warning")
    assert trouble.is_visible()
    assert EVIL in trouble.inner_text()
    assert tab.locator(".facts").inner_text() == before
    assert tab.evaluate("window.broken") is None


@pytest.mark.parametrize("graph", ["grid", "ring", "geometric", "sbm", "karate"])
def test_node_tooltip_shows_class_and_state_for_every_graph(visit, graph):
    tab = visit(f"#view=playground&graph={graph}&n=64&seed=1")
    stage = tab.locator(".stage").nth(0)
    box = stage.bounding_box()
    place = (
        stage.locator("canvas")
        .nth(1)
        .evaluate(
            """canvas => {
          const { width } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, width);
          const full = (k) => data[4 * k + 3] === 255 && data[4 * (k + 2) + 3] === 255;
          const places = [...Array(width * width).keys()].slice(width * width / 4);
          const at = places.find((k) => full(k) && k % width > 20 && k % width < width - 20);
          return [(at % width + 1) / width, (Math.floor(at / width) + 1) / width];
        }"""
        )
    )
    tab.mouse.move(box["x"] + place[0] * box["width"], box["y"] + place[1] * box["height"])
    assert "class" in tab.locator("#tooltip").inner_text()
    assert "diffusion" in tab.locator("#tooltip").inner_text()


def test_homophily_slider_sets_the_measured_homophily(visit):
    tab = visit("#view=playground&graph=sbm&n=1000&degree=20")
    slide(tab, "homophily", "0.25")
    rest(tab)
    share = float(tab.locator(".facts").inner_text().split("homophily ")[1].split(";")[0])
    assert share == pytest.approx(0.25, abs=0.03)


def test_coefficients_may_differ_by_channel(visit):
    tab = visit(SMALL)
    slide(tab, "channels", "3")
    tab.locator("fieldset", has_text="β").get_by_label("per channel").check()
    slide(tab, "β, reaction of channel 2", "-1")
    choose(tab, "show", "channels")
    rest(tab)
    assert tab.locator(".stages figcaption").nth(1).inner_text().endswith("β = −1")
    assert "beta=1%2C-1%2C1" in link(tab)


def test_a_reaction_that_is_registered_is_in_the_menu():
    name = "nagumo"
    terms = Terms(linear=-0.25, square=1.25, cube=-1)
    REACTIONS.add(name, made_of(terms)(lambda s: s.h * (1 - s.h) * (s.h - 0.25)))
    try:
        (found,) = [found for found in reactions() if found["name"] == name]
    finally:
        del REACTIONS._entries[name], gread.MODELS._entries[f"gread-{name}"]
    assert found["terms"]["square"] == 1.25


def test_trained_model_controls_change_the_view_and_the_link(visit):
    tab = visit("#view=model&moment=0")
    canvas = tab.locator(".cloud canvas")
    first = canvas.evaluate("c => c.toDataURL()")
    slide(tab, "integration time t", "1000")
    assert canvas.evaluate("c => c.toDataURL()") != first
    assert "test accuracy if the integration ended here" in canvas.get_attribute("aria-label")
    assert EVIL in tab.locator(".keys").first.inner_text()
    last = canvas.evaluate("c => c.toDataURL()")
    choose(tab, "colour by", "prediction")
    assert canvas.evaluate("c => c.toDataURL()") != last
    tab.get_by_label("only misclassified nodes").check()
    tab.locator(".errors tbody button").first.click()
    assert "predicted at T" in tab.locator(".details").inner_text()
    shared = link(tab)
    assert "wrong=1" in shared
    assert "tint=prediction" in shared
    other = visit(shared)
    assert other.locator(".details").inner_text() == tab.locator(".details").inner_text()
    assert tab.evaluate("window.broken") is None


def test_hover_shows_a_tooltip_with_the_neighbours_of_a_node(visit):
    tab = visit("#view=model&moment=1")
    box = tab.locator(".cloud canvas").bounding_box()
    for share in range(10, 90, 2):
        tab.mouse.move(box["x"] + box["width"] * share / 100, box["y"] + box["height"] / 2)
        if tab.locator("#tooltip").is_visible():
            break
    assert "neighbours" in tab.locator("#tooltip").inner_text()


def test_a_stored_run_is_trained_again_when_it_is_chosen(visit, served):
    tab = visit("#view=model", address=served)
    tab.get_by_role("button", name="train again and show").click()
    tab.wait_for_selector(".cloud canvas")
    note = tab.locator(".portrait .note").first.inner_text()
    assert "A store keeps numbers and no weights" in note
    assert SPEC.key in link(tab)


def test_page_without_a_model_shows_the_command_to_add_one(visit, tmp_path, board):
    file = tmp_path / "empty.html"
    file.write_text(page(board), encoding="utf-8")
    tab = visit("#view=model", address=file.as_uri())
    assert "gread explore --model" in tab.locator(".empty").inner_text()


def test_the_leaderboard_sorts_and_filters(visit):
    tab = visit("#view=leaderboard")
    models = tab.locator(".leaderboard tbody tr:not(.below) th")
    assert models.all_inner_texts()[:2] == ["GREAD-BS", "GREAD-FB"]
    assert tab.locator(".leaderboard tbody tr.below").count() == 2
    tab.get_by_role("button", name="Texas").click()
    values = tab.locator(".leaderboard tbody tr:not(.below) td:nth-child(2)").all_inner_texts()
    means = [float(value.split(" ")[0]) for value in values if value != "missing"]
    assert means == sorted(means, reverse=True)
    assert "sort=Texas%3Adescending" in link(tab)
    again = visit(link(tab)).locator(".leaderboard tbody tr:not(.below) th")
    assert again.all_inner_texts() == models.all_inner_texts()
    tab.get_by_label("model name contains").fill("gcn")
    assert {"gcn" in name.lower() for name in models.all_inner_texts()} == {True}
    tab.get_by_label("model name contains").fill("")
    choose(tab, "dataset", "texas")
    assert tab.locator(".dotplots figure").count() == 1
    assert tab.locator(".dotplots circle.own").count() == 2
    assert "dataset=texas" in link(tab)


def test_the_command_writes_a_file_that_opens_without_a_network(visit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["explore", "--store", "store", "--export", "deep/page.html"])
    assert done.exit_code == 0, done.output
    tab = visit("", address=(tmp_path / "deep" / "page.html").as_uri(), offline=True)
    tab.get_by_role("button", name="play").click()
    until(tab, 1)


@pytest.mark.parametrize("view", ["playground", "model", "leaderboard"])
@pytest.mark.parametrize("width", [1400, 900, 360])
def test_nothing_is_wider_than_the_screen(visit, view, width):
    tab = visit(f"#view={view}", size=(width, 800))
    wide, screen = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= screen == width


def test_phone_shows_pictures_first_and_paints_only_in_paint_mode(visit):
    tab = visit("", **PHONE)
    assert tab.locator(".stage").nth(1).bounding_box()["y"] < 500
    assert tab.get_by_role("button", name="play").bounding_box()["y"] < 700
    canvas = tab.locator(".stage canvas:nth-child(2)").first
    assert canvas.evaluate("c => getComputedStyle(c).touchAction") == "auto"
    tab.get_by_role("button", name="paint").tap()
    assert canvas.evaluate("c => getComputedStyle(c).touchAction") == "none"
    before = picture(tab, 0)
    canvas.tap()
    rest(tab)
    assert picture(tab, 0) != before


def test_tabs_follow_arrow_keys_and_stay_in_sync_with_the_address(visit):
    tab = visit()
    tab.get_by_role("tab", name="Playground").focus()
    tab.keyboard.press("ArrowRight")
    assert tab.get_by_role("tab", name="Trained model").get_attribute("aria-selected") == "true"
    assert tab.locator("#view-playground").is_hidden()
    assert link(tab).startswith("#view=model")
    tab.evaluate("location.hash = '#view=leaderboard&dataset=cora'")
    tab.wait_for_timeout(200)
    assert tab.locator(".dotplots figcaption").all_inner_texts() == ["Cora"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["playground", "model", "leaderboard"])
def test_axe_finds_no_accessibility_violations(visit, violations, view, scheme):
    tab = visit(f"#view={view}&tau=1&step=4", color_scheme=scheme)
    rest(tab)
    assert [
        (rule["id"], node["html"][:200], node["failureSummary"])
        for rule in violations(tab)
        for node in rule["nodes"]
    ] == []


def test_simulation_of_ten_thousand_nodes_exceeds_five_frames_per_second(visit):
    """The rate depends on the machine; docs/explorer.md has measurements."""
    tab = visit("")
    tab.get_by_role("button", name="A wave").click()
    tab.wait_for_timeout(2500)
    assert "10000 nodes" in tab.locator(".facts").inner_text()
    assert float(tab.locator(".rate").inner_text().split(" ")[0]) > 5
