"""Studies in a real PostgreSQL server, and read by Optuna's dashboard."""

import json
import threading
import urllib.request
from wsgiref.simple_server import WSGIRequestHandler, make_server

import optuna
import pytest

from gread.runs.store import ResultStore
from gread.search.report import report
from gread.search.search import search
from gread.search.space import Space
from gread.search.study import journal, load_study, trials_of
from tests.search.conftest import TABLE
from tests.search.test_search import together


@pytest.mark.slow
def test_processes_share_a_study_in_postgresql(tmp_path, postgresql):
    """Both processes create the tables at the same time."""
    counts = together(tmp_path, postgresql)
    assert sum(counts) == 32 == len(ResultStore(tmp_path))
    assert all(counts)
    study, plan = load_study("csbm-gread-bs", postgresql, tmp_path)
    assert len(trials_of(study, Space(plan.model, plan.space))) == 16
    assert not (tmp_path / "studies").exists()


@pytest.mark.slow
def test_search_in_postgresql_is_resumed_and_reported(tmp_path, postgresql, space, store):
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
