"""Pinned dependencies, and no network access."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

from studies.soak.rows import ROOT, SCRIPTS, Row

LOCK = ROOT / "requirements.lock"

WATCH = """
import sys
def watch(event, arguments):
    # On this machine: loopback, and sockets that are files.
    local = any(here in str(arguments) for here in ("127.0.0.1", "::1", "family=1,"))
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo") and not local:
        sys.__stderr__.write(f"CALLED {event} {arguments}\\n")
sys.addaudithook(watch)
from pathlib import Path
from gread.runs import RunSpec, run
from gread.runs.trackers import tracked
from gread.training import TrainConfig
def command(*line):
    from gread.cli import app
    app(list(line), standalone_mode=False)
def track(name):
    spec = RunSpec(dataset="csbm", model="mlp", train=TrainConfig(epochs=1))
    with tracked([name], spec, Path("tracked")) as on_epoch:
        run(spec, on_epoch=on_epoch)
"""

CALLS = {
    "import gread": "import gread",
    "gread list models": "command('list', 'models')",
    "gread doctor": "command('doctor')",
    "gread datasets csbm": "command('datasets', 'csbm')",
    "gread train csbm": "command('train', 'csbm', '--splits', '0', '--epochs', '1')",
    "gread explore --export": "command('explore', '--export', 'page.html')",
    "gread report": "command('report')",
    "ogb, if a dataset needs it": "from gread.data.ogb import _silent\n"
    "with _silent(): import ogb.nodeproppred",
    "the tracker tensorboard": "track('tensorboard')",
    "the tracker mlflow": "track('mlflow')",
    "the tracker wandb, offline": "import os\nos.environ['WANDB_MODE'] = 'offline'\ntrack('wandb')",
}
"""Code that must not access the network, by name."""


@SCRIPTS.register("supply")
def main(times: int | None) -> list[Row]:
    """Monitor commands, check the lock against an index, and find known vulnerabilities."""
    common = ("Supply chain", "pinned with hashes, no network at import, no telemetry")
    told = {name: called(code) for name, code in list(CALLS.items())[:times]}
    wrong = [f"{name}: {found}" for name, found in told.items() if found]
    calls = "; ".join(wrong) or (
        "none used the network. Fixed: MLflow sent usage data, W&B would send error reports, and "
        "ogb with an older setuptools would look up its newest release"
    )
    rows = [
        Row(*common, ", ".join(told), len(told), calls, "studies/soak/supply.py"),
        Row(*common, "pins of the tested set", *locked(), "studies/soak/supply.py"),
    ]
    if times is None:
        audit = "pip-audit on the lock"
        rows += [
            Row(
                *common,
                "pip install --require-hashes --dry-run",
                1,
                installs(),
                "studies/soak/supply.py",
            ),
            Row(*common, audit, 1, audited(), "studies/soak/supply.py"),
        ]
    return rows


def called(code: str) -> str:
    """Network calls of Python code in a separate folder, or the end of its error output."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", WATCH + code]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=600)
    calls = re.findall(r"CALLED .*", done.stderr)
    return "; ".join(calls) or (done.stderr[-300:] if done.returncode else "")


def locked() -> tuple[int, str]:
    """Numbers of pins and of hashes."""
    text = LOCK.read_text()
    pins = re.findall(r"^[a-z0-9._-]+==", text, re.MULTILINE)
    hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}", text)
    return len(pins), f"{len(hashes):,} SHA-256 hashes, one for every file of every platform"


def installs() -> str:
    """Outcome of a dry run in which pip installs the lock and verifies every hash."""
    command = [sys.executable, "-m", "pip", "install", "--require-hashes", "--dry-run", "--no-deps"]
    with tempfile.TemporaryDirectory() as folder:
        command += ["--ignore-installed", "--target", str(Path(folder, "x")), "-r", str(LOCK)]
        done = subprocess.run(command, capture_output=True, text=True)
    found = re.findall(r"Would install (.*)", done.stdout)
    if not found:
        return f"pip could not: {done.stderr.strip()[-200:]}"
    return f"{len(found[0].split())} files with the hashes of the lock, for this platform"


def audited() -> str:
    """Known vulnerabilities of the lock by pip-audit."""
    if which("pip-audit") is None:
        return "pip-audit is not installed: nothing was looked up"
    command = ["pip-audit", "--require-hashes", "--disable-pip", "-r", str(LOCK)]
    done = subprocess.run(command, capture_output=True, text=True)
    told = done.stdout + done.stderr
    unknown = told.count("could not be audited")
    if unknown:
        return f"no vulnerability data available: {unknown} packages could not be looked up"
    return told.strip().splitlines()[0] if told.strip() else f"exit status {done.returncode}"
