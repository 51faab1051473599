"""Two concurrent processes on one store, study, data root or output."""

import json
import os
import tempfile
from pathlib import Path

from studies.soak.commands import (
    FIT,
    REPRODUCE,
    SEARCH,
    TRAIN,
    ended,
    files,
    forked,
    in_fresh_process,
    prepared,
    results,
)
from studies.soak.rows import SCRIPTS, Row

FAULT = "Two processes on one store, one study, one data root"
MUST_HOLD = (
    "no corruption, and no more duplicated work than documented (docs/runs.md, docs/search.md)"
)
STORE = ("--store", "store")
EACH = 5


@SCRIPTS.register("together")
def together(times: int | None) -> list[Row]:
    """Run the same command twice concurrently, and compare with a single run."""
    count = times or EACH
    tried = {
        "one store: `gread train` twice at once": _store,
        "one study: `gread search` twice at once": _study,
        "one data root: `gread train --model h2gcn` into two stores": _data_root,
        "one output: `gread reproduce` twice at once": _output,
        "one model folder: `gread fit` twice at once": _folder,
    }
    rows = []
    for what, function in tried.items():
        found = [in_fresh_process(function) for _ in range(count)][-1]
        rows.append(Row(FAULT, MUST_HOLD, what, count, found, "studies/soak/together.py"))
    return rows


def _both(first: tuple[str, ...], second: tuple[str, ...], work: Path) -> list[tuple[int, str]]:
    """Exit codes and output of two concurrent commands."""
    logs = [work / "log-0", work / "log-1"]
    children = [forked(c, work, log) for c, log in zip((first, second), logs, strict=True)]
    codes = [ended(child) for child in children]
    return [(code, log.read_text()) for code, log in zip(codes, logs, strict=True)]


def _alone(command: tuple[str, ...], work: Path) -> None:
    assert ended(forked(command, prepared(work))) == 0, (work / "log").read_text()


def _one_and_two(command: tuple[str, ...], folder: str) -> tuple[Path, Path]:
    """Folders of a single run and of two concurrent runs, with the same results."""
    one, two = Path(folder, "one"), prepared(Path(folder, "two"))
    _alone(command, one)
    for code, said in _both(command, command, two):
        assert code == 0, said
    assert results(one / "store") == results(two / "store")
    return one, two


def _store() -> str:
    with tempfile.TemporaryDirectory() as folder:
        _one_and_two((*TRAIN, *STORE), folder)
    found = "the same results as one command; as documented, each computes what was missing when"
    return f"{found} it started"


def _study() -> str:
    command = (*SEARCH, "--space", "space.toml", *STORE, "--json")
    with tempfile.TemporaryDirectory() as folder:
        _, two = _one_and_two(command, folder)
        journal = (two / "store" / "studies" / "csbm-gread-bs.journal").read_text()
        events = [json.loads(line) for line in journal.splitlines()]
        attributes = [event.get("user_attr", {}) for event in events]
        signed = [attribute["worker"] for attribute in attributes if "worker" in attribute]
        assert len(signed) == 10, "a trial was taken by two"
        shares = sorted(signed.count(worker) for worker in set(signed))
    divided = " and ".join(map(str, shares))
    return f"the same trials as one command, divided into {divided}; none computed twice"


def _data_root() -> str:
    with tempfile.TemporaryDirectory() as folder:
        work = prepared(Path(folder, "work"))
        os.environ["GREAD_DATA"] = str(work / "data")
        commands = [(*TRAIN, "--model", "h2gcn", "--store", name) for name in ("a", "b")]
        for code, said in _both(*commands, work):
            assert code == 0, said
        assert results(work / "a") == results(work / "b") != {}
        kept = files(work / "data")
        assert len(kept) == 1, kept.keys()
    found = "the same results in both stores, one complete file in the root"
    return f"{found}; as documented, each may compute it"


def _output() -> str:
    command = (*REPRODUCE, *STORE, "--out", "out")
    with tempfile.TemporaryDirectory() as folder:
        one, two = _one_and_two(command, folder)
        assert files(one / "out") == files(two / "out")
        assert not list((two / "out").glob(".*"))
    return "the same files and results as one command"


def _folder() -> str:
    command = (*FIT, "--set", "epochs=20", "--out", "model")
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder, "one"), prepared(Path(folder, "two"))
        _alone(command, one)
        said = sorted(_both(command, command, two))
        assert [code for code, _ in said] == [0, 2], said
        assert "must not exist yet" in said[1][1]
        assert files(one / "model").keys() == files(two / "model").keys()
        weights = "model.safetensors"
        assert files(one / "model")[weights] == files(two / "model")[weights]
        assert not list(two.glob(".model*"))
    return "the folder of the first command; the second reports that the name is taken"
