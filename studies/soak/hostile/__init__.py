"""Hostile files that try to run code, fill memory, or write files elsewhere.

A case writes its file to a separate folder and reads it as a user would. The file must be rejected
with an error of gread, or read as plain values, which the case asserts. Each case runs in a
monitored process, which records unpickling, new processes, connections, writes elsewhere, memory
and time.
"""

import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.tables import arrow as parquet
from studies.soak.hostile.folders import FOLDERS, trained
from studies.soak.hostile.spoiled import EXECUTED, Case
from studies.soak.hostile.stored import ROOT, SETTINGS, STORED, result
from studies.soak.hostile.tables import GRAPHS, TABLES
from studies.soak.rows import SCRIPTS, Row

OURS = (InputError, OSError, ArithmeticError)
"""Errors that a user may get; the command prints each as one line."""

MOST_MEMORY = 1e9
MOST_SECONDS = 120


class Group(NamedTuple):
    """Cases of one kind, and the findings of the first attempt."""

    tried: str
    cases: Registry[Case]
    repaired: str


GROUPS = (
    Group(
        "tables: NPZ with pickles and decompression bombs, Parquet, CSV with 10^6 columns, JSON "
        "lines",
        TABLES,
        "tracebacks for invalid archives, a Parquet file of 1 MB that filled the memory, minutes "
        "for 10^6 columns or for one column per row",
    ),
    Group(
        "GraphML with entities, GML bombs",
        GRAPHS,
        "entities were expanded up to a hundredfold; one column per node took minutes",
    ),
    Group(
        "model folders: pickles, broken safetensors, invalid settings and graphs",
        FOLDERS,
        "settings could request unlimited memory and 10^18 steps, NaN in weights was accepted, "
        "sizes of a shared graph were trusted, formulas in predictions.csv",
    ),
    Group(
        "manipulated stored runs and journals",
        STORED,
        "values of wrong types were accepted or gave a traceback",
    ),
    Group(
        "TOML of presets and spaces with wrong types",
        SETTINGS,
        "tracebacks for invalid tables and deep nesting; device files were read endlessly",
    ),
    Group(
        "the data root: Planetoid's pickles with code, parsed graphs, structures",
        ROOT,
        "tracebacks for broken headers; pairs of missing nodes were trusted",
    ),
)

HARMLESS = {
    "an NPZ file with paths that lead out of it",
    "a Parquet file that repeats a long text a million times",
    "a Parquet file whose type is a pickle",
    "a CSV file with 10,000 columns of two letters",
    "a CSV file with formulas",
    "a GML file with text that Python could run",
    "a model folder with a pickle among its files",
    "integer weights",
    "a shared graph with ids that are lists",
    "classes that are HTML, on the page of the explorer",
    "classes and ids that are formulas, in predictions",
    "a store that is a pickle",
    "a parsed graph with masks of numbers",
    "a structure that was computed by a stranger",
    "relations of Geom-GCN that are none, 2",
}
"""Cases that are read as plain values; all others are rejected."""

FORBIDDEN = {
    "pickle.find_class": "unpickled",
    "os.system": "started",
    "os.exec": "started",
    "os.posix_spawn": "started",
    "subprocess.Popen": "started",
    "socket.connect": "connected to",
}
"""Events of Python's audit hooks that no case may cause."""

READER = [sys.executable, parquet.__file__]
"""Parquet files are read in a separate process of gread, which is allowed."""


class Outcome(NamedTuple):
    """Outcome of a case: refused, harmless or failed, with its cost."""

    name: str
    kind: str
    sentence: str
    seen: list[str]
    memory: float
    seconds: float

    @property
    def held(self) -> bool:
        """Whether all requirements hold."""
        cheap = self.memory < MOST_MEMORY and self.seconds < MOST_SECONDS
        expected = "harmless" if self.name in HARMLESS else "refused"
        return self.kind == expected and not self.seen and cheap

    def __str__(self) -> str:
        price = f"{self.seconds:5.1f} s {self.memory / 1e6:6.0f} MB"
        return f"{self.kind:9}{price}  {self.name}: {self.sentence} {' '.join(self.seen)}"


def attempt(name: str, case: Case) -> Outcome:
    """Try one case in a separate process."""
    start = perf_counter()
    with tempfile.TemporaryDirectory() as place:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _watched(case, Path(place).resolve(), write)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            text = pipe.read()
        _, status = os.waitpid(child, 0)
    told = {"kind": "failed", "sentence": f"ended by signal {status}", "seen": [], "memory": 0}
    return Outcome(name, seconds=perf_counter() - start, **(json.loads(text) if text else told))


def _watched(case: Case, folder: Path, out: int) -> None:
    """Run a case in this process, and write its outcome to a pipe as JSON."""
    seen: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and list(map(str, arguments[1][:2])) == READER:
            return
        if event in FORBIDDEN and "127.0.0.1" not in str(arguments):
            seen.append(f"{FORBIDDEN[event]} {arguments!r:.200}")
        elif event == "open" and isinstance(arguments[0], str | bytes):
            place = os.path.abspath(os.fsdecode(arguments[0]))
            writes = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and not place.startswith((str(folder), "/dev/null")):
                seen.append(f"wrote {place}")

    signal.alarm(MOST_SECONDS)
    sizes = [resource.getpagesize() * int(n) for n in Path("/proc/self/statm").read_text().split()]
    before, held = sizes[1], sizes[5]
    # Limit the memory of accepted files.
    resource.setrlimit(resource.RLIMIT_DATA, (held + 2**32, held + 2**32))
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    sys.addaudithook(hook)
    try:
        case(folder)
        kind, sentence = "harmless", ""
    except OURS as error:
        kind, sentence = "refused", " ".join(str(error).split())
    except BaseException:
        kind, sentence = "failed", traceback.format_exc()
    if (folder / EXECUTED).exists():
        seen.append("executed the code in the file")
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    memory = 1024 * (own.ru_maxrss + others.ru_maxrss) - before
    found = {"kind": kind, "sentence": sentence, "seen": seen, "memory": memory}
    os.write(out, json.dumps(found).encode())
    os._exit(0)


@SCRIPTS.register("hostile")
def main(times: int | None) -> list[Row]:
    """Try every hostile file, or the first ``times`` of each kind."""
    with tempfile.TemporaryDirectory() as place:  # warm-up of caches and imports
        for case in (FOLDERS["a model folder with a pickle among its files"], _warm):
            Path(place, case.__name__).mkdir()
            case(Path(place, case.__name__))
    return [_row(group, times) for group in GROUPS]


def _warm(folder: Path) -> None:
    trained()
    result()


def _row(group: Group, times: int | None) -> Row:
    outcomes = []
    for name, case in list(group.cases.items())[:times]:
        outcomes.append(attempt(name, case))
        print(outcomes[-1], flush=True)
    wrong = [outcome.name for outcome in outcomes if not outcome.held]
    refused = sum(outcome.kind == "refused" for outcome in outcomes)
    memory, seconds = (max(getattr(o, of) for o in outcomes) for of in ("memory", "seconds"))
    found = (
        f"{refused} refused, {len(outcomes) - refused - len(wrong)} read as harmless data, nothing "
        f"executed; {memory / 1e6:.0f} MB and {seconds:.0f} s at most, including the creation of "
        f"the file. Fixed: {group.repaired}"
    )
    return Row(
        "Hostile files",
        "refused with a reason, nothing executed, nothing written outside, bounded memory",
        group.tried,
        len(outcomes),
        f"DID NOT HOLD: {', '.join(wrong)}. {found}" if wrong else found,
        "studies/soak/hostile/__init__.py",
    )
