"""Trackers: log runs to TensorBoard, Weights & Biases or MLflow.

Each is an optional dependency that is imported only when used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.runs.complete import complete
from gread.runs.spec import RunSpec, Value

if TYPE_CHECKING:
    from torch import nn
    from torch_geometric.data import Data

    from gread.training.loop import Epoch

Log: TypeAlias = Callable[[Mapping[str, float], int], Any]
"""Function that logs values by name for a step."""

Tracker: TypeAlias = Callable[[RunSpec, Path], AbstractContextManager[Log]]
"""Context manager that opens a tracked run of a spec, with files below a folder."""

OnEpoch: TypeAlias = "Callable[[Epoch, nn.Module, Data], None]"
"""Callback of `gread.runs.run` after every epoch."""

TRACKERS: Registry[Tracker] = Registry("tracker")

TELEMETRY = {
    "mlflow": {"MLFLOW_DISABLE_TELEMETRY": "true"},
    "wandb": {"WANDB_ERROR_REPORTING": "false"},
}
"""Variables that disable the telemetry of a tracker; read at import."""


@contextmanager
def tracked(
    names: Sequence[str], spec: RunSpec, folder: Path, watch: OnEpoch | None = None
) -> Iterator[OnEpoch]:
    """An ``on_epoch`` for `gread.runs.run` that writes loss and metrics to every tracker.

    Args:
        names: Names of `TRACKERS`.
        spec: Spec of the run; its settings, including defaults, are logged once.
        folder: Folder for files; created if missing.
        watch: Callback that is called first after every epoch.

    Example:
        >>> from gread.runs import run
        >>> from gread.training.config import TrainConfig
        >>> spec = RunSpec(dataset="csbm", model="mlp", train=TrainConfig(epochs=2))
        >>> with tracked([], spec, Path(".")) as on_epoch:
        ...     run(spec, on_epoch=on_epoch).status
        'ok'
    """
    folder.mkdir(parents=True, exist_ok=True)
    spec = complete(spec)
    with ExitStack() as stack:
        logs = [stack.enter_context(TRACKERS[name](spec, folder)) for name in names]

        def on_epoch(epoch: Epoch, model: nn.Module, data: Data) -> None:
            if watch is not None:
                watch(epoch, model, data)
            values = asdict(epoch)
            step = values.pop("number")
            for log in logs:
                log(values, step)

        yield on_epoch


@TRACKERS.register("tensorboard")
@contextmanager
def tensorboard(spec: RunSpec, folder: Path) -> Iterator[Log]:
    """Events in ``folder/tensorboard``: ``tensorboard --logdir`` shows them."""
    _package("tensorboard")  # PyTorch's writer needs the package
    from torch.utils.tensorboard import SummaryWriter

    place = folder / "tensorboard" / _name(spec).replace(" ", "-")
    # A repeated run replaces the events of its killed predecessor.
    with SummaryWriter(place, purge_step=0) as writer:
        writer.add_hparams(_settings(spec), {}, run_name=".")

        def log(values: Mapping[str, float], step: int) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)

        yield log


@TRACKERS.register("wandb")
@contextmanager
def wandb(spec: RunSpec, folder: Path) -> Iterator[Log]:
    """Run in the project gread; with ``WANDB_MODE=offline`` only in ``folder/wandb``."""
    package = _package("wandb")
    try:
        run = package.init(
            project="gread",
            name=_name(spec),
            config=_settings(spec),
            dir=folder,
            reinit="create_new",  # the default would reuse a run that the user has open
        )
    except package.Error as error:
        raise InputError(f"tracker 'wandb' does not start: {error}") from error
    with run:
        yield run.log


@TRACKERS.register("mlflow")
@contextmanager
def mlflow(spec: RunSpec, folder: Path) -> Iterator[Log]:
    """Run in the experiment gread, at ``MLFLOW_TRACKING_URI`` or in ``folder/mlflow.sqlite``."""
    package = _package("mlflow")
    local = f"sqlite:///{folder.resolve() / 'mlflow.sqlite'}"
    try:
        # A separate client, because mlflow.set_tracking_uri would affect the whole process.
        client = package.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or local)
        found = client.get_experiment_by_name("gread")
        experiment = found.experiment_id if found else client.create_experiment("gread")
        run = client.create_run(experiment, run_name=_name(spec)).info.run_id
    except package.MlflowException as error:
        raise InputError(f"tracker 'mlflow' does not start: {error}") from error
    params = [package.entities.Param(name, str(value)) for name, value in _settings(spec).items()]
    client.log_batch(run, params=params)

    def log(values: Mapping[str, float], step: int) -> None:
        now = int(1000 * time.time())
        client.log_batch(
            run, [package.entities.Metric(*pair, now, step) for pair in values.items()]
        )

    try:
        yield log
    except BaseException:
        client.set_terminated(run, "FAILED")
        raise
    client.set_terminated(run)


def _package(name: str) -> Any:
    """Import the package of a tracker, which has the name of its extra."""
    for variable, value in TELEMETRY.get(name, {}).items():
        os.environ.setdefault(variable, value)  # a value set by the user has priority
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"tracker {name!r} needs the package {name}: pip install 'gread[{name}]'"
        ) from error


def _name(spec: RunSpec) -> str:
    return f"{spec.model} {spec.dataset} split {spec.split} seed {spec.seed} {spec.key[:8]}"


def _settings(spec: RunSpec) -> dict[str, Value]:
    """Flatten a spec: ``hyper.time``, ``train.lr`` and so on."""
    parts = {"hyper": spec.hyper, "train": asdict(spec.train), "options": spec.options}
    return {
        **{name: getattr(spec, name) for name in ("dataset", "model", "split", "seed", "key")},
        **{f"{part}.{name}": value for part, has in parts.items() for name, value in has.items()},
    }
