"""HTTP server of the page on loopback; it serves no file of the machine.

A request must have this address as Host, and no foreign Origin. Requests from another page in the
same browser, or through a domain name that resolves to loopback, are refused.
"""

from __future__ import annotations

import errno
import json
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from gread.base.errors import InputError
from gread.explorer.trained import portrait_of_run
from gread.models.catalog import MODELS
from gread.runs.result import Result
from gread.runs.values import measured
from gread.training.metrics import metric_name

ADDRESS = "127.0.0.1"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Answer(NamedTuple):
    """Response to a request."""

    status: HTTPStatus
    kind: str
    body: bytes

    @staticmethod
    def json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Answer:
        """Build a JSON response."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return Answer(status, "application/json", text.encode())


class _Ended(Exception):
    """Raised in a training when the server stops."""


class Runs:
    """Stored runs of models in continuous time, each trained again when it is first requested."""

    def __init__(self, results: Iterable[Result], root: str | None = None):
        self.results = {
            result.spec.key: result
            for result in results
            if result.test is not None and MODELS[result.spec.model].continuous
        }
        self.root = root
        self._answers: dict[str, Answer] = {}
        self._one_at_a_time = threading.Lock()
        self._ended = threading.Event()
        self._trainings: list[threading.Thread] = []

    def listed(self) -> list[dict[str, Any]]:
        """Stored runs for the page."""
        found = sorted(
            self.results.values(),
            key=lambda r: (r.spec.dataset, r.spec.model, r.spec.split, r.spec.seed),
        )
        return [
            {
                "key": result.spec.key,
                "dataset": result.spec.dataset,
                "model": MODELS[result.spec.model].title,
                "split": result.spec.split,
                "seed": result.spec.seed,
                "metric": metric_name(result.spec.train),
                "val": measured(result.val, result.spec.train),
                "test": measured(result.test, result.spec.train),
            }
            for result in found
        ]

    def answer(self, key: str) -> Answer | None:
        """Return the portrait or the progress of its training; None for an unknown run."""
        if key not in self.results:
            return None
        if key not in self._answers:
            self._progress(key, 0)
            self._trainings.append(threading.Thread(target=self._train, args=(key,)))
            self._trainings[-1].start()
        return self._answers[key]

    def close(self) -> None:
        """Stop trainings after their epoch; PyTorch aborts if the process exits during one."""
        self._ended.set()
        for training in self._trainings:
            training.join()

    def _progress(self, key: str, epoch: int) -> None:
        if self._ended.is_set():
            raise _Ended
        stands = {"epoch": epoch, "epochs": self.results[key].spec.train.epochs}
        self._answers[key] = Answer.json(stands, HTTPStatus.ACCEPTED)

    def _train(self, key: str) -> None:
        with self._one_at_a_time, suppress(_Ended):
            try:
                self._progress(key, 0)
                progress = partial(self._progress, key)
                found = portrait_of_run(self.results[key], progress, root=self.root)
                self._answers[key] = Answer.json(found)
            except (InputError, ArithmeticError, OSError, RuntimeError) as error:
                self._answers[key] = _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
            except Exception as error:  # the page polls until it gets an answer
                reason = f"the run could not be trained again: {error!r}"
                self._answers[key] = _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, reason)


class ExplorerServer(ThreadingHTTPServer):
    """HTTP server on loopback; ``port`` 0 selects a free one."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, page: str, runs: Runs, port: int):
        self.page = Answer(HTTPStatus.OK, "text/html; charset=utf-8", page.encode())
        self.runs = runs
        super().__init__((ADDRESS, port), _Handler)

    @property
    def url(self) -> str:
        """URL of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless the browser closed the connection before its answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def find(self, path: str) -> Answer | None:
        """Response to a path: the page or a run of the store; None for any other path."""
        if path == "/":
            return self.page
        if path.startswith("/runs/") and path.endswith(".json"):
            return self.runs.answer(path.removeprefix("/runs/").removesuffix(".json"))
        return None


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    server_version = "gread"
    sys_version = ""

    def do_GET(self) -> None:
        """Send the page or a run."""
        hosts = {f"{name}:{self.server.server_port}" for name in (ADDRESS, "localhost")}
        origin = self.headers.get("Origin")
        if self.headers.get("Host") not in hosts:
            return self._send(_refusal(HTTPStatus.FORBIDDEN, "the request names another host"))
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            return self._send(_refusal(HTTPStatus.FORBIDDEN, "the request has a foreign Origin"))
        found = self.server.find(self.path.partition("?")[0])
        return self._send(found or _refusal(HTTPStatus.NOT_FOUND, "not found"))

    do_HEAD = do_GET

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, so that requests do not fill the terminal."""


def _refusal(status: HTTPStatus, reason: str) -> Answer:
    return Answer.json({"error": reason}, status)


def serve(page: str, runs: Runs, port: int, on_start: Callable[[str], None]) -> None:
    """Serve a page and its runs until Ctrl-C; see `gread.explorer.explore`."""
    try:
        server = ExplorerServer(page, runs, port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise InputError(
            f"--port must be a free port, got {port}: {error.strerror}; --port 0 selects one"
        ) from error
    with server:
        on_start(server.url)
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            runs.close()
