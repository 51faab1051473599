"""A web server that simulates download failures."""

import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Server(ThreadingHTTPServer):
    """Server of ``files``; ``manner`` sets the behaviour by path, ``asked`` records requests."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.manner: dict[str, str] = {}
        self.asked: list[tuple[str, str | None]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        path = self.path.lstrip("/")
        wanted = self.headers.get("Range")
        self.server.asked.append((path, wanted))
        content = self.server.files.get(path)
        manner = self.server.manner.get(path, "good")
        if content is None:
            self.send_error(404)
            return
        start = 0
        if wanted and manner != "no-resume":
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        if manner == "truncated":
            body = body[: len(body) // 2]
            self.server.manner[path] = "good"  # the next request succeeds
        elif manner == "always-truncated":
            body = body[: len(body) // 2]
        with suppress(ConnectionError):  # the client was killed
            for at in range(0, len(body), 1024):
                self.wfile.write(body[at : at + 1024])
                if manner == "slow":
                    time.sleep(0.02)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as server:
        quickly = {"poll_interval": 0.02}  # the shutdown waits for one interval
        thread = threading.Thread(target=server.serve_forever, kwargs=quickly, daemon=True)
        thread.start()
        yield server
        server.shutdown()
