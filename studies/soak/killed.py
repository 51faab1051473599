"""``kill -9`` at random times: the same command then gives the uninterrupted result."""

import json
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

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

FAULT = "`kill -9` at random moments"
MUST_HOLD = (
    "a resumed command gives the uninterrupted result, byte for byte if determinism is promised; "
    "only runs in progress are lost; no corrupt file"
)
EACH = 25
AT_A_TIME = 5
"""Number of kills before a command may finish, because `gread fit` cannot resume."""
STORE = ("--store", "store")
COMMANDS = {
    "train": (*TRAIN, *STORE),
    "search": (*SEARCH, "--space", "space.toml", *STORE),
    "reproduce": (*REPRODUCE, *STORE, "--out", "out"),
    "fit": (*FIT, "--set", "epochs=60", "--out", "model"),
}


@SCRIPTS.register("killed")
def killed(times: int | None) -> list[Row]:
    """Kill each command repeatedly."""
    rows = []
    for name in COMMANDS:
        kills, rounds, stored = in_fresh_process(_kill, name, times or EACH)
        found = f"ended {rounds} times, each time with the bytes of an uninterrupted command"
        found += f"; {stored} results were stored at the kills, and all remained" if stored else ""
        rows.append(
            Row(FAULT, MUST_HOLD, f"`gread {name}`", kills, found, "studies/soak/killed.py")
        )
    return rows


def _kill(name: str, kills: int) -> tuple[int, int, int]:
    """Number of kills, of completed commands, and of results stored at all kills together."""
    draw = random.Random(name)
    with tempfile.TemporaryDirectory() as folder:
        whole, again = prepared(Path(folder, "whole")), Path(folder, "again")
        ended(forked(COMMANDS[name], whole))  # warm-up of lazy imports
        shutil.rmtree(whole)
        begin = time.monotonic()
        status = ended(forked(COMMANDS[name], prepared(whole)))
        seconds = time.monotonic() - begin
        assert status == 0, (whole / "log").read_text()
        expected = _seen(whole)
        done = rounds = stored = 0
        prepared(again)
        while done < kills or AT_A_TIME * rounds < kills:
            before = results(again / "store")
            child = forked(COMMANDS[name], again)
            if done < min(kills, AT_A_TIME * (rounds + 1)):
                time.sleep(draw.uniform(0, seconds))
                os.kill(child, signal.SIGKILL)
            status = ended(child)
            assert status in (0, -signal.SIGKILL), (again / "log").read_text()
            done += status != 0
            after = results(again / "store")
            assert before.items() <= after.items(), "a stored result has changed"
            _check_parts(_seen(again), expected)
            stored += len(after) if status else 0
            if status == 0:
                assert _seen(again) == expected, f"{name} ended with something else"
                shutil.rmtree(again)
                prepared(again)
                rounds += 1
        return done, rounds, stored


def _seen(folder: Path) -> dict[str, Any]:
    """Output of a command: results, finished trials, files."""
    found: dict[str, Any] = {"results": results(folder / "store")}
    for kind in ("out", "model"):
        found |= {f"{kind}/{name}": content for name, content in files(folder / kind).items()}
    if "model/classifier.json" in found:
        found["model/classifier.json"] = json.loads(found["model/classifier.json"])
    for journal in (folder / "store" / "studies").glob("*.journal"):
        found["trials"] = _trials(journal)
    return found


def _trials(journal: Path) -> dict[int, Any]:
    """Finished trials of a study, read by Optuna."""
    from gread.search.space import Space
    from gread.search.study import load_study, trials_of

    try:
        study, plan = load_study(journal.stem, None, journal.parent)
    except ValueError:  # killed before the study was created
        return {}
    return {trial.number: trial for trial in trials_of(study, Space(plan.model, plan.space))}


def _check_parts(seen: dict[str, Any], expected: dict[str, Any]) -> None:
    """Check that files after a kill are complete and part of the final result."""
    for name, found in seen.items():
        if isinstance(found, dict) and name in ("results", "trials"):
            assert found.items() <= expected[name].items(), f"{name} differ"
        else:
            assert found == expected[name], f"{name} is not whole"
