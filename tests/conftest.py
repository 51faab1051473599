"""Shared settings, plugins and fixtures of pytest."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from glob import glob
from pathlib import Path

import matplotlib

import gread  # isort: skip  # before PyG, whose import it makes three seconds faster

import pytest
import torch
from _pytest.runner import runtestprotocol
from torch_geometric.data import Data

# pytest-xdist uses all cores, so more threads per process would compete.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)

# Background jobs of a shell ignore Ctrl-C, and child processes would inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config):
    """One worker per core, and one more for slow tests, which wait for processes or a browser."""
    return (os.cpu_count() or 1) + (config.option.markexpr != "not slow")


SLOW = Path(__file__).with_name("slow.txt").read_text().split()
"""Slow doctests, tests and cases of otherwise fast tests, by the start of their node id."""

LONG = ("tests/runs/test_ray.py", "tests/test_wheel.py", "tests/test_docs.py")
"""Files with tests of up to a minute. Tests of the first share a cluster, those of the second an
environment."""


@pytest.hookimpl(tryfirst=True)  # before marked tests are deselected
def pytest_collection_modifyitems(items):
    """Mark the tests in `SLOW`, and run slow and long tests first, to balance the workers."""
    for item in items:
        if item.nodeid.startswith(tuple(SLOW)):
            item.add_marker("slow")
    items.sort(key=lambda item: (is_fast(item), not item.nodeid.startswith(LONG)))


def is_fast(item):
    return item.get_closest_marker("slow") is None


def pytest_addoption(parser):
    parser.addoption(
        "--fail-slow",
        type=float,
        metavar="SECONDS",
        help="fail if a test without the mark slow takes longer, measured again alone",
    )


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        return
    if config.getoption("numprocesses"):  # without it, keep files for debugging
        config.pluginmanager.register(NothingIsLeft(config))
    if config.getoption("--fail-slow"):
        config.pluginmanager.register(FailSlow(config))


class NothingIsLeft:
    """Fail if a process outlives the tests, and remove all files of the tests.

    All files are below one folder, whose name is in the environment of every child process.
    Matplotlib keeps its own font cache.
    """

    def __init__(self, config):
        self.folder = tempfile.mkdtemp(prefix="gread")  # short, because socket paths have a limit
        self.left = []
        os.chmod(self.folder, 0o711)  # the database in it belongs to another user
        fonts = matplotlib.get_cachedir()  # listing fonts takes seconds
        os.environ |= {"TMPDIR": self.folder, "XDG_CACHE_HOME": f"{self.folder}/cache"}
        os.environ |= {"XDG_CONFIG_HOME": f"{self.folder}/config", "MPLCONFIGDIR": fonts}
        os.environ["ONEDNN_JIT_PROFILE"] = "0"  # otherwise it writes /tmp/perf-*.map
        tempfile.tempdir = None  # reset the cached value
        config.add_cleanup(lambda: shutil.rmtree(self.folder, ignore_errors=True))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        until = time.monotonic() + 20
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.1)
        self.left = left
        if left:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def processes(self):
        """Command lines of processes that tests have started, on Linux."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended or belongs to another user
                if self.folder.encode() in (process / "environ").read_bytes():
                    command = (process / "cmdline").read_text().replace("\0", " ")
                    found.append(f"{process.name} {command}")
        return found

    def pytest_terminal_summary(self, terminalreporter):
        for process in self.left:
            terminalreporter.write_line(f"the tests left the process {process}")


class FailSlow:
    """Report tests that should be marked slow or made faster.

    Tests that exceed four times the limit under load are run again twice, alone. The second run
    excludes one-time costs such as imports. Up to two and a half times the limit is tolerated,
    because machines differ.
    """

    def __init__(self, config):
        self.alone = not config.getoption("numprocesses")
        self.limit = config.getoption("--fail-slow")
        self.most = (2.5 if self.alone else 4) * self.limit
        self.slow = {}

    def pytest_runtest_protocol(self, item):
        if self.alone:
            example = getattr(item, "dtest", None)
            names = {} if example is None else dict(example.globs)
            runtestprotocol(item, nextitem=item.parent, log=False)  # keeps module fixtures
            if example is not None:
                example.globs |= names  # doctest clears them after a run

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and "slow" not in report.keywords and report.duration > self.most:
            self.slow[report.nodeid] = report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session, exitstatus):
        if not self.slow or exitstatus:
            return
        if self.alone:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            return
        options = ("-n", "0", "-p", "no:cacheprovider", f"--fail-slow={self.limit}")
        command = [sys.executable, "-m", "pytest", *options, *self.slow]
        session.exitstatus = subprocess.run(command, cwd=session.config.rootpath).returncode

    def pytest_terminal_summary(self, terminalreporter):
        if self.alone:
            for test, seconds in self.slow.items():
                terminalreporter.write_line(f"{test} takes {seconds:.1f} s: mark it slow")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def graph() -> Data:
    """Twelve nodes in two classes, node 11 without neighbours, in float64."""
    data = gread.csbm(12, p_within=0.7, p_between=0.3, num_features=3, num_splits=2, seed=3)
    keep = (data.edge_index != 11).all(dim=0)
    data.edge_index = data.edge_index[:, keep]
    data.x = data.x.double()
    return data


@pytest.fixture(scope="session")
def real_root() -> Path:
    """A data root with the benchmark files."""
    root = os.environ.get("GREAD_DATA")
    if not root:
        pytest.skip("GREAD_DATA is not set to the folder with the benchmark files")
    return Path(root)


@pytest.fixture(scope="module")
def browser():
    """Chromium of the system, controlled by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no Chromium: Debian's package is called chromium")
    with playwright.sync_playwright() as driver:
        # Root and many containers lack a sandbox, and the pages are trusted. No page uses WebGL,
        # which would be emulated on the CPU.
        without = ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"]
        started = driver.chromium.launch(executable_path=chromium, args=without)
        yield started
        started.close()


class Tabs:
    """Tabs that tests use one after the other.

    A new one takes a second of CPU time. Every page is loaded again, and the storage of the browser
    is empty.

    Attributes:
        troubles: Console messages, errors, and requests to other addresses than those opened.
    """

    def __init__(self, browser):
        self.browser = browser
        self.unused, self.used = {True: [], False: []}, []
        self.addresses, self.troubles = {"about:blank", "data:"}, []

    def open(self, address, link="", *, size, has_touch=False, color_scheme="light", offline=False):
        """Open a page in a tab; ``size`` is its width and height in pixels."""
        self.addresses.add(address)
        tab = self.unused[has_touch].pop() if self.unused[has_touch] else self._new(has_touch)
        self.used.append((has_touch, tab))
        tab.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
        tab.emulate_media(color_scheme=color_scheme)
        tab.context.set_offline(offline)
        tab.goto(address + link)
        return tab

    def _new(self, has_touch):
        tab = self.browser.new_context(has_touch=has_touch).new_page()
        tab.set_default_timeout(8000)
        tab.on("console", lambda message: self.troubles.append(message.text))
        tab.on("pageerror", lambda error: self.troubles.append(str(error)))
        tab.on("request", self._check)
        return tab

    def _check(self, request):
        if not request.url.startswith(tuple(self.addresses)):
            self.troubles.append(request.url)

    def close(self):
        """Empty the tabs, which stops the scripts of their pages."""
        while self.used:
            has_touch, tab = self.used.pop()
            tab.mouse.move(0, 0)
            tab.evaluate("[localStorage, sessionStorage].forEach(one => one.clear())")
            tab.goto("about:blank")
            self.unused[has_touch].append(tab)


@pytest.fixture(scope="module")
def all_tabs(browser):
    return Tabs(browser)


@pytest.fixture
def tabs(all_tabs):
    """Tabs of this test; fails on console messages, errors and foreign requests."""
    yield all_tabs
    all_tabs.close()
    found = all_tabs.troubles.copy()
    all_tabs.troubles.clear()
    all_tabs.addresses -= {one for one in all_tabs.addresses if "://" in one}
    assert not found


@pytest.fixture(scope="session")
def violations():
    """Function that returns the rules of axe that a page violates."""
    axe = Path(__file__).parents[1] / ".node" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        pytest.skip("there is no axe: npm install --no-save --prefix .node axe-core@4.10.3")

    def find(tab):
        tab.evaluate(axe.read_text("utf-8"))
        return tab.evaluate("axe.run({resultTypes: ['violations']})")["violations"]

    return find


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def not_root() -> dict:
    """Options of `subprocess` that select a user for PostgreSQL, which does not run as root."""
    if os.getuid() != 0:
        return {}
    import pwd  # not available on Windows

    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@pytest.fixture(scope="module")
def postgresql():
    """URL of a database on a temporary server."""
    psycopg2 = pytest.importorskip("psycopg2")
    places = sorted(glob("/usr/lib/postgresql/*/bin")) or [
        os.path.dirname(shutil.which("initdb") or "")
    ]
    if not places[-1]:
        pytest.skip("there is no PostgreSQL: initdb is neither in Debian's place nor in the path")
    programs, other = Path(places[-1]), not_root()
    folder = tempfile.mkdtemp()  # pytest's folder is not accessible to another user
    if other:
        os.chown(folder, other["user"], other["group"])
    data, port = f"{folder}/data", free_port()
    options = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **other}
    made = [programs / "initdb", "-D", data, "-U", "gread", "-A", "trust", "--no-locale", "-N"]
    subprocess.run(made, check=True, timeout=120, **options)
    server = subprocess.Popen(
        [
            *(programs / "postgres", "-D", data, "-p", str(port), "-k", folder),
            *("-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"),
        ],
        **(options | {"stderr": subprocess.DEVNULL}),
    )
    place = f"gread@127.0.0.1:{port}/postgres"
    until = time.monotonic() + 60
    while True:
        try:
            psycopg2.connect(f"postgresql://{place}").close()
            break
        except psycopg2.OperationalError:
            assert server.poll() is None and time.monotonic() < until
            time.sleep(0.1)
    yield f"postgresql+psycopg2://{place}"
    server.send_signal(signal.SIGINT)  # a fast shutdown
    server.wait(timeout=60)
    shutil.rmtree(folder)
