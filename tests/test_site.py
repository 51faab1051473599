"""The site builds without warnings, loads nothing from other hosts, and is accessible."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ASSET = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=[\"']?(https?:)?//[^>]*>")
IMPORT = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the site; ``GREAD_SITE`` names one that is already built."""
    if "GREAD_SITE" in os.environ:
        return ROOT / os.environ["GREAD_SITE"]
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    options = {"cwd": ROOT, "env": {**os.environ, "NO_MKDOCS_2_WARNING": "1"}}
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return folder


def test_no_asset_is_from_another_host(site):
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    assert len(pages) > 60
    foreign = [(path, found[0]) for path, text in pages.items() if (found := ASSET.search(text))]
    styles = [path for path in site.rglob("*.css") if IMPORT.search(path.read_text("utf-8"))]
    assert not foreign and not styles


def test_search_has_every_page_of_the_navigation(site):
    pages = re.findall(r"^ +- (?:[^:]+: )?([\w./-]+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.M)
    index = (site / "search" / "search_index.js").read_text("utf-8")
    assert len(pages) > 40
    assert not [page for page in pages if f'"location":"{page}.html' not in index]


@pytest.mark.parametrize(
    ("page", "scheme", "width"),
    [
        ("own-graph", "light", 400),
        ("performance", "light", 400),
        ("reference/models", "dark", 1300),
    ],
)
def test_axe_finds_no_serious_problem(site, browser, violations, page, scheme, width):
    tab = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    tab.goto((site / f"{page}.html").resolve().as_uri())
    found = violations(tab)
    tab.close()
    serious = [rule for rule in found if rule["impact"] in ("serious", "critical")]
    assert [(rule["id"], node["html"]) for rule in serious for node in rule["nodes"]] == []


@pytest.mark.parametrize("width", [400, 1300])
def test_wide_tables_scroll_inside_the_page(site, browser, width):
    tab = browser.new_page(viewport={"width": width, "height": 900})
    for page in ("results/table-4", "glossary", "reliability"):
        tab.goto((site / f"{page}.html").resolve().as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == width
    tab.close()
