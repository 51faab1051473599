"""What all tests share: one thread each, a fixed seed, and small graphs."""

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
import pytest
import torch
from _pytest.runner import runtestprotocol
from torch_geometric.data import Data

import gread

# pytest-xdist fills the cores; more threads, here or in a subprocess, only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)

# What runs in the background of a shell ignores Ctrl-C, and so would the processes that tests stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config):
    """One a core, and one more for slow tests, which wait for processes, servers or a browser."""
    return (os.cpu_count() or 1) + (config.option.markexpr != "not slow")


SLOW = Path(__file__).with_name("slow.txt").read_text().split()
"""Examples, and cases of tests whose other cases are fast, by the beginning of their name."""

LONG = ("tests/runs/test_ray.py", "tests/test_wheel.py", "tests/test_docs.py")
"""Files with tests of up to a minute; the first two share a cluster and an environment."""


@pytest.hookimpl(tryfirst=True)  # before those with the mark are left out
def pytest_collection_modifyitems(items):
    """Long and slow ones first, so that in the end no worker waits for another."""
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
    if config.getoption("numprocesses"):  # else one debugs, and may want to see what is left
        config.pluginmanager.register(NothingIsLeft(config))
    if config.getoption("--fail-slow"):
        config.pluginmanager.register(FailSlow(config))


class NothingIsLeft:
    """Fails if a process outlives the tests, and removes all that they have written.

    It is below one folder, whose name is in the environment of every process they start. The
    fonts that matplotlib has found stay in its own cache.
    """

    def __init__(self, config):
        self.folder = tempfile.mkdtemp(prefix="gread")  # short: paths of sockets have a limit
        self.left = []
        os.chmod(self.folder, 0o711)  # another user's database lies in it
        fonts = matplotlib.get_cachedir()  # which matplotlib takes seconds to list
        os.environ |= {"TMPDIR": self.folder, "XDG_CACHE_HOME": f"{self.folder}/cache"}
        os.environ |= {"XDG_CONFIG_HOME": f"{self.folder}/config", "MPLCONFIGDIR": fonts}
        os.environ["ONEDNN_JIT_PROFILE"] = "0"  # else it writes /tmp/perf-*.map
        tempfile.tempdir = None  # what was chosen before
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
        """Command lines of those that were started below, on Linux."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or is another user's
                if self.folder.encode() in (process / "environ").read_bytes():
                    command = (process / "cmdline").read_text().replace("\0", " ")
                    found.append(f"{process.name} {command}")
        return found

    def pytest_terminal_summary(self, terminalreporter):
        for process in self.left:
            terminalreporter.write_line(f"the tests left the process {process}")


class FailSlow:
    """Names tests that should be marked slow or made faster.

    Those that take four times the limit beside others are run again, alone and twice: the second
    time without what a session does once, such as imports. There up to two and a half times the
    limit is noise: machines differ.
    """

    def __init__(self, config):
        self.alone = not config.getoption("numprocesses")
        self.limit = config.getoption("--fail-slow")
        self.most = (2.5 if self.alone else 4) * self.limit
        self.slow = {}

    def pytest_runtest_protocol(self, item):
        if self.alone:
            runtestprotocol(item, nextitem=item.parent, log=False)  # what its module shares stays

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
        pytest.skip("GREAD_DATA does not say where the benchmark files are")
    return Path(root)


@pytest.fixture(scope="module")
def browser():
    """A Chromium of the system, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no Chromium: Debian's package is called chromium")
    with playwright.sync_playwright() as driver:
        # Without a sandbox, which root and many containers do not have: the page is ours.
        started = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def not_root() -> dict:
    """PostgreSQL refuses to run as root: another user for it, where that is who we are."""
    if os.getuid() != 0:
        return {}
    import pwd  # which Windows does not have

    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@pytest.fixture(scope="module")
def postgresql():
    """The URL of a database on a server of our own."""
    psycopg2 = pytest.importorskip("psycopg2")
    places = sorted(glob("/usr/lib/postgresql/*/bin")) or [
        os.path.dirname(shutil.which("initdb") or "")
    ]
    if not places[-1]:
        pytest.skip("there is no PostgreSQL: initdb is neither in Debian's place nor in the path")
    programs, other = Path(places[-1]), not_root()
    folder = tempfile.mkdtemp()  # below pytest's own folder another user could not reach it
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
