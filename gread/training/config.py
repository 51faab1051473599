"""Training settings as a value."""

from __future__ import annotations

from dataclasses import dataclass

from gread.base.checks import check_count, check_not_negative, check_positive
from gread.base.errors import InputError

HALO = 2
"""Default number of hops around a part."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of a training.

    Attributes:
        epochs: Largest number of epochs; an epoch is one step on all training nodes.
        lr: Learning rate of Adam.
        weight_decay: L2 penalty in the gradient of all parameters (Adam, not AdamW).
        patience: Number of epochs without improvement of the validation metric before training
            stops.
        parts: Number of parts of the graph, trained in turn to save memory
            (`gread.graph.partition`). Their gradients are added before each step.
        halo: Hops around each part.
        processes: Number of processes over which the graph is sharded (`gread.distributed`).
        loss: A name of ``gread.training.LOSSES``.
        metric: A name of ``gread.training.METRICS``, which selects the epoch on validation nodes;
            by default that of the loss: accuracy for classes, R² for numbers.

    Example:
        >>> TrainConfig(epochs=50, patience=10).lr
        0.01
    """

    epochs: int = 200
    lr: float = 0.01
    weight_decay: float = 5e-4
    patience: int | None = None
    parts: int = 1
    halo: int = HALO
    processes: int = 1
    loss: str = "cross-entropy"
    metric: str | None = None

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs)
        check_positive("lr", self.lr)
        check_not_negative("weight_decay", self.weight_decay)
        if self.patience is not None:
            check_count("patience", self.patience)
        check_count("parts", self.parts)
        check_count("halo", self.halo, minimum=0)
        check_count("processes", self.processes)
        if self.parts > 1 and self.processes > 1:
            raise InputError(
                f"parts must be 1 with several processes, each of which holds one, got {self.parts}"
            )
        if not isinstance(self.loss, str) or not isinstance(self.metric, str | None):
            raise InputError(f"loss and metric must be names, got {self.loss!r}, {self.metric!r}")
