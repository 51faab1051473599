"""CUDA graphs: record a function once and replay it with one launch."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

S = TypeVar("S")
T = TypeVar("T")

WARM_UP = 3
"""Calls before recording, which compile kernels and allocate the memory of the graph."""

_reading = True


def values_can_be_read() -> bool:
    """Return whether values may be read on the host.

    They may not under torch.compile, or during the warm-up and capture of a CUDA graph.
    """
    if torch.compiler.is_compiling() or not _reading:
        return False
    # Nothing is captured before the first use of a GPU, so an unusable driver is not called.
    return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


class Recording:
    """A function without arguments that returns a tensor, replayed as a CUDA graph.

    The first calls run the function directly. A function that synchronizes with the device cannot
    be recorded and is always called directly.
    """

    def __init__(self, function: Callable[[], Tensor]):
        self.function = function
        self.stream = _stream(torch.cuda.current_device(), 0)
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> Tensor:
        """Return the current value of the function."""
        if self.graph is not None:
            self.graph.replay()
            return self.result
        self.calls += 1
        if self.calls > WARM_UP:
            return self.function()
        with _without_reading(), _waits() as waits:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                result = self.function()
            torch.cuda.current_stream().wait_stream(self.stream)
        if self.calls == WARM_UP and not waits:
            self._record()
        return result

    def _record(self) -> None:
        """Record the function; the next call replays it."""
        self.graph = torch.cuda.CUDAGraph()
        with (
            _without_reading(),
            _without_collection(),
            torch.cuda.graph(self.graph, stream=self.stream),
        ):
            self.result = self.function()


def side_by_side(first: Callable[[], S], second: Callable[[], T]) -> tuple[S, T]:
    """Run two independent functions, concurrently on a GPU.

    A recorded CUDA graph has a branch for each. Neither may write memory that the other reads.
    """
    if not torch.cuda.is_initialized():
        return first(), second()
    current = torch.cuda.current_stream()
    branch = _stream(torch.cuda.current_device(), 1)
    branch.wait_stream(current)
    with torch.cuda.stream(branch):
        found = first()
    other = second()
    current.wait_stream(branch)
    return found, other


@cache
def _stream(device: int, number: int) -> torch.cuda.Stream:
    """Return the stream with this number: 0 for all recordings, 1 for branches.

    cuBLAS keeps a workspace per stream, 32 MiB on Hopper.
    """
    return torch.cuda.Stream(device)


@contextmanager
def _without_reading() -> Iterator[None]:
    global _reading
    before, _reading = _reading, False
    try:
        yield
    finally:
        _reading = before


@contextmanager
def _without_collection() -> Iterator[None]:
    """Context manager without garbage collection: freeing another graph would end the capture."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@contextmanager
def _waits() -> Iterator[list[warnings.WarningMessage]]:
    """Detect synchronizations with the device, which cannot be recorded."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield seen
        finally:
            torch.cuda.set_sync_debug_mode(before)
        seen[:] = [one for one in seen if "synchroniz" in str(one.message)]
