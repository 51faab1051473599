"""Exchange of rows and sums between the processes of one training.

Every process holds the rows of its own nodes and fetches those of the halo, their neighbours in
other shards. In the backward pass the gradients of these rows return to their owners.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from gread.base.errors import InputError

T = TypeVar("T")


@dataclass
class Traffic:
    """Amount of exchanged data so far.

    Attributes:
        exchanges: Number of exchanges of rows.
        sent: Bytes sent to other processes.
        waited: Seconds spent waiting for rows or sums of other processes; on a GPU, only the time
            that the host waits.
    """

    exchanges: int = 0
    sent: int = 0
    waited: float = 0.0


class Pending(NamedTuple):
    """Rows that are being exchanged."""

    rows: Tensor
    work: Any
    keep: Tensor  # the sent buffer, kept alive until it has arrived
    traffic: Traffic

    def wait(self) -> Tensor:
        """Wait for the rows and return them."""
        if self.work is not None:
            start = time.perf_counter()
            self.work.wait()
            self.traffic.waited += time.perf_counter() - start
        return self.rows


@dataclass(frozen=True, eq=False)
class Border:
    """The border between the nodes of this process and those of others.

    Attributes:
        own: Number of nodes of this process.
        send, send_counts: Indices of own rows that others fetch, ordered by process, [s]; number of
            rows for each process.
        halo_counts: Number of rows fetched from each process; together they are the halo.
    """

    own: int
    send: Tensor
    send_counts: list[int]
    halo_counts: list[int]
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def halo(self) -> int:
        """Number of nodes in the halo of this process."""
        return sum(self.halo_counts)

    def fetch(self, x: Tensor) -> Pending:
        """Start the exchange of halo rows of a state [own, ...]."""
        return self._exchange(x.index_select(0, self.send), self.send_counts, self.halo_counts)

    def return_rows(self, x: Tensor) -> Pending:
        """Send rows of the halo [halo, ...] to their owners, and receive [s, ...]."""
        return self._exchange(x.contiguous(), self.halo_counts, self.send_counts)

    def _exchange(self, rows: Tensor, away: list[int], here: list[int]) -> Pending:
        out = rows.new_empty(sum(here), *rows.shape[1:])
        if len(here) == 1:
            return Pending(out, None, rows, self.traffic)
        self.traffic.exchanges += 1
        self.traffic.sent += rows.nbytes
        work = dist.all_to_all_single(out, rows, here, away, async_op=True)
        return Pending(out, work, rows, self.traffic)

    def reach(self, x: Tensor) -> Tensor:
        """Append the rows of the halo to x, [own + halo, ...], with gradient."""
        return _Reach.apply(self, x)

    def collect(self, x: Tensor) -> Tensor:
        """Complete the sums of own nodes from sums [own + halo, ...] of all processes."""
        home = self.return_rows(x[self.own :])
        return x[: self.own].index_add(0, self.send, home.wait())

    def total(self, sums: Tensor) -> Tensor:
        """Sum over all processes, with gradient."""
        return _Total.apply(self, sums) if dist.is_initialized() else sums

    def add_up(self, sums: Tensor) -> Tensor:
        """Sum over all processes, without gradient."""
        start = time.perf_counter()
        sums = sums.detach().clone()
        dist.all_reduce(sums)
        self.traffic.waited += time.perf_counter() - start
        return sums


class _Reach(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, border: Border, x: Tensor) -> Tensor:
        ctx.border = border
        return torch.cat([x, border.fetch(x).wait()])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, ctx.border.collect(grad)


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, border: Border, sums: Tensor) -> Tensor:
        ctx.border = border
        return border.add_up(sums)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, ctx.border.add_up(grad)


def rank() -> int:
    """Rank of this process."""
    return dist.get_rank() if dist.is_initialized() else 0


def processes() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def fail_together(work: Callable[[], T]) -> T:
    """Call ``work``; an `InputError` or `OSError` on one process raises `InputError` on all."""
    found, message = None, ""
    try:
        found = work()
    except (InputError, OSError) as error:
        message = str(error)
    message = next(filter(None, on_all(message)), "")
    if message:
        raise InputError(message)
    assert found is not None
    return found


def on_all(value: T) -> list[T]:
    """Values of all processes, by rank."""
    found = [value] * processes()
    if dist.is_initialized():
        dist.all_gather_object(found, value)
    return found


def agreed(value: T) -> T:
    """Broadcast the value of process 0."""
    values = [value]
    if dist.is_initialized():
        dist.broadcast_object_list(values, 0)
    return values[0]


@contextmanager
def process_group(
    device: str, *, seconds: float, where: str = "env://", rank: int = -1, processes: int = -1
) -> Iterator[None]:
    """Join a group of processes, and leave it at the end.

    Args:
        device: Device of this process; NCCL connects GPUs, Gloo connects CPUs.
        seconds: Time after which a process stops waiting for the others.
        where: ``init_method`` of ``torch.distributed.init_process_group``.
        rank: Rank of this process; by default from the environment, as torchrun sets it.
        processes: Number of processes; by default from the environment.

    Raises:
        InputError: The environment lacks the rank or the address of the group.
        ConnectionError: Another process has died or does not answer.
    """
    backend = "nccl" if torch.device(device).type == "cuda" else "gloo"
    group: Any = {"init_method": where, "rank": rank, "world_size": processes}
    try:
        with connection_errors():
            dist.init_process_group(backend, timeout=timedelta(seconds=seconds), **group)
    except ValueError as error:
        raise InputError(
            "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT must be set as torchrun sets them, got: "
            f"{error}"
        ) from error
    try:
        with connection_errors():
            # A process that finishes early must stay until the others have connected.
            dist.all_reduce(torch.zeros(1, device=device))
            yield
    finally:
        dist.destroy_process_group()


@contextmanager
def connection_errors() -> Iterator[None]:
    """Context manager that converts connection errors to a one-line `ConnectionError`."""
    try:
        yield
    except RuntimeError as error:
        words = ("gloo", "nccl", "connection", "timed out", "rendezvous")
        message = str(error).lower()
        if not (isinstance(error, dist.DistError) or any(word in message for word in words)):
            raise
        number = f"process {rank()} of {processes()}" if dist.is_initialized() else "a process"
        reason = str(error).partition("\n")[0].strip()[:200]
        raise ConnectionError(
            f"{number} lost the connection to another one, which died or does not answer; the same "
            f"command resumes from the last checkpoint ({reason})"
        ) from error
