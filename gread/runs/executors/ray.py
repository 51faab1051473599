"""Executor on a Ray cluster: jobs are tasks, graphs are in the object store.

Ray is imported only when used.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import torch

from gread.base.errors import InputError
from gread.base.memory import OutOfMemory
from gread.models.catalog import MODELS
from gread.runs.executors.job import Job, Outcome, compute_in_worker
from gread.runs.grouping import CPU_BYTES, bytes_of, free, size_of
from gread.runs.result import Result
from gread.runs.run import Graph, prepared

SECONDS = 30.0
"""Timeout of a connection in seconds. Ray itself retries for minutes and ignores Ctrl-C."""

SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Fractions of a GPU that a job may use."""

WINDOW = 1000
"""Largest number of submitted jobs: more than fit, so that a cluster can scale up."""

PROBE = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False)"


class Ray:
    """Executor on a Ray cluster or on a local Ray instance.

    An existing connection of this process is reused.

    Args:
        address: ``HOST:PORT``; ``auto`` for the cluster of this machine; empty for the cluster of
            ``RAY_ADDRESS``, or else for a new local instance.
    """

    remote = True

    def __init__(self, address: str = ""):
        self.ray = _import_ray()
        self.graphs: dict[str, _Shipped] = {}
        if self.ray.is_initialized():
            return
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        if address != "local":
            _check_answers(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # disables telemetry
        self.ray.init(
            address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
        )

    def choose_device(self, name: str) -> str:
        """Return a device type of the cluster; Ray assigns the GPU."""
        there = ["cuda", "cpu"] if self.ray.cluster_resources().get("GPU") else ["cpu"]
        if name == "auto":
            return there[0]
        if name not in there:
            raise InputError(f"device must be {' or '.join(there)} on this cluster, got {name!r}")
        return name

    def memory(self, device: str, workers: int | None) -> float:
        """Memory limit on a GPU of the cluster; all are assumed to be equal."""
        return CPU_BYTES if device == "cpu" else self._gpu_memory

    @cached_property
    def _gpu_memory(self) -> float:
        return float(self.ray.get(self.ray.remote(num_gpus=SHARES[0])(free).remote("cuda")))

    def start(self, device: str, workers: int | None, imports: Sequence[str]) -> None:
        """Do nothing: Ray starts processes itself."""

    def compute(
        self, jobs: Sequence[Job], workers: int | None, imports: Sequence[str]
    ) -> Generator[Outcome, None, None]:
        """Run each job as a task on one core, with a fraction of a GPU by its memory."""
        if any(spec.train.processes > 1 for job in jobs for spec in job.specs):
            raise InputError("processes must be 1 on Ray: torchrun shards a graph over machines")
        task = self.ray.remote(max_retries=0)(_work)  # `launch` retries for every executor
        waiting = deque(jobs)
        running: dict[Any, Job] = {}
        try:
            while waiting or running:
                while waiting and len(running) < (workers or WINDOW):
                    job = waiting.popleft()
                    placed = task.options(num_cpus=1, num_gpus=self._gpus(job, alone=workers == 1))
                    running[placed.remote(job, self._shipped(job), imports)] = job
                (done, *_), _ = self.ray.wait(list(running))
                yield running.pop(done), self._outcome(done)
        finally:
            for unfinished in running:
                self.ray.cancel(unfinished, force=True)

    def _gpus(self, job: Job, alone: bool) -> float:
        if job.device == "cpu" or alone:
            return float(job.device != "cpu")
        size = size_of(prepared(job.specs[0], job.root, "cpu")[0])
        return share(sum(bytes_of(spec, size) for spec in job.specs), self._gpu_memory)

    def _shipped(self, job: Job) -> _Shipped:
        """Put the graph of a job into the object store; each node fetches it once."""
        spec = job.specs[0]
        about = [spec.dataset, dict(spec.options), MODELS[spec.model].structure, job.root]
        key = json.dumps(about)
        if key not in self.graphs:
            graph = prepared(spec, job.root, "cpu")
            self.graphs[key] = _Shipped(f"{key} {graph[1]}", self.ray.put(graph))
        return self.graphs[key]

    def _outcome(self, done: Any) -> list[Result] | ConnectionError | OutOfMemory:
        errors = self.ray.exceptions
        try:
            results: list[Result] = self.ray.get(done)
            return results
        except errors.RayTaskError as error:
            if isinstance(error.cause, errors.RaySystemError):  # the job could not be unpickled
                reason = str(error.cause).partition("\n")[0]
                raise InputError(
                    f"every node must have the same version of gread: {reason}"
                ) from error
            if isinstance(error.cause, OutOfMemory):
                return error.cause
            raise error.cause from error
        except (
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.LocalRayletDiedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
        ) as error:
            return ConnectionError(str(error).partition("\n")[0])


def share(need: float, memory: float) -> float:
    """Fraction of a GPU for a job that needs this much of ``memory``.

    Example:
        >>> share(3e9, 30e9), share(10e9, 30e9), share(40e9, 30e9)
        (0.125, 0.5, 1.0)
    """
    return next((part for part in SHARES if need <= part * memory), SHARES[-1])


@dataclass(frozen=True)
class _Shipped:
    """Graph in the object store, identified by its key."""

    key: str
    reference: Any = field(compare=False)


@lru_cache(maxsize=16)
def _received(graph: _Shipped) -> Graph:
    """Fetch a graph; cached, because consecutive runs use the same one."""
    found: Graph = _import_ray().get(graph.reference)
    return found


def _work(job: Job, graph: _Shipped, imports: Sequence[str]) -> list[Result]:
    """Compute a job in a worker of the cluster."""
    torch.set_num_threads(1)
    for module in imports:
        importlib.import_module(module)
    return compute_in_worker(job, _received(graph))


def _import_ray() -> Any:
    """Import Ray, or raise an error that names the extra."""
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "the executor ray needs the package ray: pip install 'gread[ray]'"
        ) from error
    return ray


def _check_answers(address: str) -> None:
    """Check in a separate process, which can be stopped, that a cluster answers at the address."""
    host, _, port = address.rpartition(":")
    try:
        if port.isdigit():  # reports common mistakes immediately
            socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
        command = [sys.executable, "-c", PROBE, address]
        subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except subprocess.TimeoutExpired as error:
        raise _unreachable(address, f"no Ray answers within {SECONDS:g} s") from error
    except subprocess.CalledProcessError as error:
        raise _unreachable(address, error.stderr.strip().rpartition("\n")[2]) from error
    except OSError as error:
        raise _unreachable(address, str(error)) from error


def _unreachable(address: str, reason: str) -> InputError:
    return InputError(f"the Ray cluster must be reachable, got {address!r}: {reason}")
