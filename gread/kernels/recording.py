"""A function on a GPU recorded once and replayed: one launch instead of hundreds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

WARM_UP = 3
"""Calls before recording: they compile kernels, and fill the memory that the graph will use."""


class Recording:
    """Calls ``function``, which takes nothing and gives a tensor, as a CUDA graph.

    The first calls run as they are. A function that cannot be recorded, since it waits for the
    device somewhere, is called as it is for good.
    """

    def __init__(self, function: Callable[[], Tensor]):
        self.function = function
        self.stream = torch.cuda.Stream()
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> Tensor:
        """What the function gives, now."""
        self.calls += 1
        if self.graph is None and self.calls == WARM_UP + 1:
            self._record()
        if self.graph is not None:
            self.graph.replay()
            return self.result
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            result = self.function()
        torch.cuda.current_stream().wait_stream(self.stream)
        return result

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.result = self.function()
        except RuntimeError:  # what waits for the device is refused while recording
            torch.cuda.synchronize()
            return
        self.graph = graph
