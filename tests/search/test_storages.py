"""Studies in a real PostgreSQL server, and read by Optuna's dashboard."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from glob import glob
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import optuna
import pytest

from gread.runs import ResultStore
from gread.search import Space, report, search
from gread.search.study import journal, load_study, trials_of
from tests.search.conftest import TABLE
from tests.search.test_search import together


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def not_root() -> dict:
    """PostgreSQL refuses to run as root: another user for it, where that is who we are."""
    if os.getuid() != 0:
        return {}
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


def test_processes_share_a_study_in_postgresql(tmp_path, postgresql):
    """The tables are made by both at once, which one of them has to survive."""
    counts = together(tmp_path, postgresql)
    assert sum(counts) == 120 == len(ResultStore(tmp_path))
    assert all(counts)
    study, plan = load_study("csbm-gread-bs", postgresql, tmp_path)
    assert len(trials_of(study, Space(plan.model, plan.space))) == 30
    assert not (tmp_path / "studies").exists()


def test_a_search_in_postgresql_goes_on_and_is_reported(tmp_path, postgresql, space, store):
    settings = {
        "store": store,
        "space": space,
        "splits": [0, 1],
        "options": {"num_nodes": 30},
        "study": "mine",
        "storage": postgresql,
        "prune": True,
    }
    first = search("csbm", trials=3, **settings)
    again = search("csbm", trials=5, **settings)
    assert again[:3] == first
    made = report("mine", store, storage=postgresql)
    assert made.finished
    assert made.selected in again
    assert len(made.tests) == sum(trial.complete for trial in again)


class Silent(WSGIRequestHandler):
    def log_message(self, *words) -> None:
        pass


def test_the_dashboard_reads_the_journal(store, space):
    dashboard = pytest.importorskip("optuna_dashboard")
    search("csbm", trials=3, store=store, space=space, splits=[0], options={"num_nodes": 30})
    path = journal("csbm-gread-bs", store.path.parent / "studies")
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    app = dashboard.wsgi(optuna.storages.JournalStorage(backend))
    with make_server("127.0.0.1", 0, app, handler_class=Silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/api/studies"
            studies = json.load(urllib.request.urlopen(address, timeout=30))
            (study,) = studies.get("study_summaries") or studies["studies"]
            shown = json.load(urllib.request.urlopen(f"{address}/{study['study_id']}", timeout=30))
        finally:
            server.shutdown()
            thread.join()
    assert study["study_name"] == "csbm-gread-bs"
    assert [trial["state"] for trial in shown["trials"]] == ["Complete"] * 3
    assert {part["name"] for part in shown["trials"][0]["params"]} == {
        name for name in TABLE if not isinstance(TABLE[name], int | str)
    }
    assert "test" not in json.dumps(shown["trials"][0]["user_attrs"])
