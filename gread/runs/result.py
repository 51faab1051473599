"""Results of runs as plain values."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gread.base.checks import check_count, check_fraction, check_not_negative, check_number
from gread.base.errors import InputError
from gread.runs.spec import RunSpec

STATUSES = ("ok", "diverged", "failed")

ADDED = ("val_loss",)
"""Fields that were added later; JSON omits them while they are None."""

_TYPES: dict[str, Any] = {
    **dict.fromkeys(("message", "device", "fingerprint", "finished"), str),
    **dict.fromkeys(("versions", "records"), dict),
    "val_loss": float | int | None,
}


@dataclass(frozen=True)
class Result:
    """The result of a run with its provenance.

    Attributes:
        spec: Spec of the run.
        status: ``"ok"``; ``"diverged"``, with the numbers of the best epoch before; or
            ``"failed"``, without numbers.
        message: Reason of a failure or divergence, otherwise empty.
        epoch: Epoch selected by the validation metric.
        train, val, test: The metric of the spec at that epoch, by default the accuracy, 0 to 1.
        val_loss: Mean loss on the validation nodes at that epoch.
        seconds: Duration of the training.
        device: Device of the training.
        fingerprint: Fingerprint of the data.
        versions: Versions of gread, Python and packages.
        finished: Time of completion, in UTC.
        history: Loss and metric of every epoch; empty if they were not stored.
        records: Additional measurements of the spec, by name.
    """

    spec: RunSpec
    status: str
    message: str = ""
    epoch: int | None = None
    train: float | None = None
    val: float | None = None
    test: float | None = None
    val_loss: float | None = None
    seconds: float = 0.0
    device: str = "cpu"
    fingerprint: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    finished: str = ""
    history: tuple[tuple[float, float, float, float], ...] = ()
    records: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """The result as one line of JSON."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        values["spec"] = self.spec.values()
        for name in ADDED:
            if values[name] is None:
                del values[name]
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Result:
        """Read a result from the JSON of `to_json`; model and dataset need not be registered.

        Raises:
            InputError: The text is not a result.
        """
        try:
            values: dict[str, Any] = json.loads(text)
            values["spec"] = RunSpec.from_values(values["spec"])
            values["history"] = tuple(tuple(map(float, epoch)) for epoch in values["history"])
            found = Result(**values)
            found.check()
        except InputError:
            raise
        except Exception as error:  # untrusted text may be invalid in any way
            raise InputError(
                f"a result must have the format of gread, got {error!r:.200}"
            ) from error
        return found

    def check(self) -> None:
        """Require values of the right types and numbers in the range of the metric."""
        if self.status not in STATUSES:
            raise InputError(f"status must be {', '.join(STATUSES)}, got {self.status!r:.80}")
        train = self.spec.train
        is_accuracy = (train.metric or train.loss) in ("accuracy", "cross-entropy", "binary")
        check = check_fraction if is_accuracy else check_number
        for name in ("train", "val", "test"):
            if getattr(self, name) is not None:
                check(name, getattr(self, name))
        check_not_negative("seconds", self.seconds)
        if self.epoch is not None:
            check_count("epoch", self.epoch, minimum=0)
        for name, of in _TYPES.items():
            if not isinstance(getattr(self, name), of):
                raise InputError(f"{name} must be {of}, got {getattr(self, name)!r:.80}")
        if any(len(epoch) != 4 for epoch in self.history):
            raise InputError("history must have four numbers per epoch")

    def without_history(self) -> Result:
        """A copy without history, which is much smaller."""
        return replace(self, history=())
