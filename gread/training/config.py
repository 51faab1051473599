"""How to train, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from gread.base.checks import check_count, check_not_negative, check_positive
from gread.base.errors import InputError

HALO = 2
"""Hops around a part, if nobody says."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train.

    Attributes:
        epochs: Number of steps, each on all training nodes.
        lr: Learning rate of Adam.
        weight_decay: L2 penalty on all parameters, inside the gradient (Adam, not AdamW).
        patience: Stop when the validation accuracy has not improved for so many epochs.
        parts: Into how many parts the graph is cut, one after the other in memory, see
            `gread.graph.partition`. Their gradients are added before a step.
        halo: Hops around each part.
        processes: Over how many processes the graph is spread, see `gread.distributed`.
    """

    epochs: int = 200
    lr: float = 0.01
    weight_decay: float = 5e-4
    patience: int | None = None
    parts: int = 1
    halo: int = HALO
    processes: int = 1

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
