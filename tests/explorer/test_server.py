"""The server answers only valid requests from its own page."""

import http.client
import json
import signal
import socket
import threading
import time
from dataclasses import replace

import pytest

from gread.base.errors import InputError
from gread.explorer.server import ADDRESS, ExplorerServer, Runs, serve
from gread.runs.result import Result
from gread.runs.run import run
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore
from gread.training.config import TrainConfig
from tests.processes import Forked

SPEC = RunSpec(
    dataset="csbm",
    model="gread-bs",
    hyper={"hidden_channels": 8, "time": 2.0, "step_size": 0.5},
    train=TrainConfig(epochs=5),
    options={"num_nodes": 60},
)


@pytest.fixture(scope="module")
def result() -> Result:
    return run(SPEC)


@pytest.fixture(scope="module")
def server(result):
    with ExplorerServer("<!doctype html><p>page</p>", Runs([result]), 0) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server, path, method="GET", **headers):
    """Send a request with a raw path, which clients would normalize."""
    connection = http.client.HTTPConnection(ADDRESS, server.server_port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    for name, value in {"Host": f"{ADDRESS}:{server.server_port}", **headers}.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_page_is_served_with_headers_that_block_other_origins(server):
    answer, body = ask(server, "/")
    assert answer.status == 200
    assert b"page" in body
    assert "default-src 'none'" in answer.getheader("Content-Security-Policy")
    assert "frame-ancestors 'none'" in answer.getheader("Content-Security-Policy")
    assert answer.getheader("Cross-Origin-Resource-Policy") == "same-origin"
    assert answer.getheader("Access-Control-Allow-Origin") is None
    assert ask(server, "/", "HEAD")[1] == b""
    assert ask(server, "/?a=b")[0].status == 200


def test_server_listens_on_loopback_only(server):
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "host", [None, "evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "evil.example:{port}"]
)
def test_requests_with_a_foreign_host_header_are_forbidden(server, host):
    asked = host and host.format(port=server.server_port)
    answer, body = ask(server, "/", Host=asked)
    assert answer.status == 403
    assert b"page" not in body


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_requests_with_a_foreign_origin_header_are_forbidden(server, origin):
    answer, body = ask(server, "/", Origin=origin.format(port=server.server_port))
    assert answer.status == 403
    assert b"page" not in body


def test_own_origin_is_accepted_as_address_and_as_localhost(server):
    for name in (ADDRESS, "localhost"):
        own = f"{name}:{server.server_port}"
        assert ask(server, "/", Host=own, Origin=f"http://{own}")[0].status == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/../../../../etc/passwd", "//etc/passwd", "/etc/passwd", "/.", "/..", "/%2e%2e/%2e%2e/"),
        *("/runs/../../results.sqlite", "/runs/..%2f..%2fpyproject.toml", "/runs/.json", "/runs/"),
        *("/runs//etc/passwd.json", "/runs/%00.json", "/page/explorer.js", "/results.sqlite"),
        *("http://evil.example/", "*", "/runs/\\..\\..\\x.json", "/index.html"),
    ],
)
def test_requests_for_file_paths_are_rejected(server, path):
    answer, body = ask(server, path)
    assert answer.status in (400, 404)
    assert b"root:" not in body
    assert b"SQLite" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_methods_other_than_get_and_head_return_501(server, method):
    assert ask(server, "/", method)[0].status == 501


def test_stored_run_is_retrained_and_both_accuracies_are_noted(server, result):
    path = f"/runs/{result.spec.key}.json"
    deadline = time.monotonic() + 60
    while (answer := ask(server, path))[0].status == 202 and time.monotonic() < deadline:
        assert json.loads(answer[1])["epochs"] == 5
        time.sleep(0.05)
    assert answer[0].status == 200
    found = json.loads(answer[1])
    assert found["key"] == result.spec.key
    assert (
        f"Test accuracy {100 * result.test:.2f}, stored {100 * result.test:.2f}"
        in found["notes"][0]
    )
    assert ask(server, "/runs/0123456789.json")[0].status == 404


def test_unexpected_error_of_a_training_is_reported(result, monkeypatch):
    def broken(*arguments, **options):
        raise KeyError("x")

    monkeypatch.setattr("gread.explorer.server.portrait_of_run", broken)
    runs = Runs([result])
    runs.answer(result.spec.key)
    runs._trainings[0].join()
    answer = runs.answer(result.spec.key)
    assert answer.status == 500
    assert json.loads(answer.body)["error"] == "the run could not be trained again: KeyError('x')"


def test_runs_that_cannot_be_shown_are_not_listed(result):
    other = RunSpec(dataset="csbm", model="gcn", train=TrainConfig(epochs=1))
    unlucky = RunSpec(dataset="csbm", model="gread-f", train=TrainConfig(epochs=1))
    runs = Runs([result, Result(other, "ok", test=0.5), Result(unlucky, "failed")])
    assert [listed["key"] for listed in runs.listed()] == [result.spec.key]


def test_runs_are_listed_with_their_metric():
    specs = (replace(SPEC, train=TrainConfig(metric=name)) for name in (None, "nll", "unknown"))
    listed = Runs(Result(spec, "ok", test=0.5, val=0.25) for spec in specs).listed()
    found = {(one["metric"], one["val"], one["test"]) for one in listed}
    shares, others = ("25.00", "50.00"), ("0.2500", "0.5000")
    assert found == {("accuracy", *shares), ("nll", *others), ("unknown", *others)}


def test_occupied_port_raises_an_input_error(server):
    with pytest.raises(InputError, match=f"--port must be a free port, got {server.server_port}"):
        serve("", Runs([]), server.server_port, on_start=lambda url: None)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_cleanly_in_the_middle_of_a_training(tmp_path, how):
    spec = replace(SPEC, train=TrainConfig(epochs=100_000))
    ResultStore(tmp_path).put(Result(spec, "ok", test=0.5))
    command = ("explore", "--store", tmp_path, "--port", "0", "--no-browser")
    process = Forked("-m", "gread", *command, cwd=tmp_path)
    address = process.wait_for("http://127.0.0.1:")
    port = int(address.split("127.0.0.1:")[1].split("/")[0])
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=20)
    connection.request("GET", "/")
    body = connection.getresponse().read().decode()
    assert spec.key in body
    connection.request("GET", f"/runs/{spec.key}.json")
    assert connection.getresponse().status == 202
    time.sleep(1)
    process.send_signal(how)
    ended = process.end(timeout=20)
    assert ended.returncode == 0
    assert ended.stderr == address + "The explorer has stopped.\n"
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind((ADDRESS, port))
