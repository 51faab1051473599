"""Output of trackers, read with their own readers.

The extra ``test`` has TensorBoard only, because the other packages are large. Tests of missing
packages are skipped.
"""

import json
import subprocess
import sys

import numpy as np
import psutil
import pytest

from gread.base.errors import InputError
from gread.runs.run import run
from gread.runs.trackers import TRACKERS, tracked

# mlflow uses features that SQLAlchemy 2.1 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")

NUMBERS = ("loss", "train", "val", "test")


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path):
    """Isolate trackers from the network and from the user's configuration."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    for place in ("CACHE", "CONFIG"):
        monkeypatch.setenv(f"WANDB_{place}_DIR", str(tmp_path / place))
    yield
    if sys.modules.get("wandb"):
        sys.modules["wandb"].teardown()  # as at exit
        children = psutil.Process().children(recursive=True)
        assert not [child for child in children if child.name().startswith("wandb")]


def read_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    (place,) = (folder / "tensorboard").iterdir()
    events = EventAccumulator(str(place)).Reload()
    content = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    stored = HParamsPluginData.FromString(content).session_start_info.hparams
    settings = {name: getattr(value, value.WhichOneof("kind")) for name, value in stored.items()}
    points = [[(event.step, event.value) for event in events.Scalars(name)] for name in NUMBERS]
    return place.name, settings, points


def read_wandb(folder):
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", folder / "wandb"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    records = [json.loads(line) for line in shown.stdout.splitlines()]
    (opened,) = (record["run"] for record in records if record["type"] == "run")
    epochs = [record["history"]["item"] for record in records if record["type"] == "history"]
    points = [[(epoch["_step"], epoch[name]) for epoch in epochs] for name in NUMBERS]
    return opened["display_name"], opened["config"]["update"], points


def read_mlflow(folder):
    client, found = mlflow_run(f"sqlite:///{folder / 'mlflow.sqlite'}")
    assert found.info.status == "FINISHED"
    series = [client.get_metric_history(found.info.run_id, name) for name in NUMBERS]
    points = [sorted((metric.step, metric.value) for metric in metrics) for metrics in series]
    return found.info.run_name, found.data.params, points


def mlflow_run(uri):
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    (found,) = client.search_runs([client.get_experiment_by_name("gread").experiment_id])
    return client, found


def points_of(result):
    """Epochs and values, one list for each of `NUMBERS`."""
    return [[(n, epoch[i]) for n, epoch in enumerate(result.history)] for i in range(4)]


READ = {"tensorboard": read_tensorboard, "wandb": read_wandb, "mlflow": read_mlflow}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACKERS)
def test_tracked_values_match_the_result(name, small, tmp_path):
    pytest.importorskip(name)
    spec, folder = small(), tmp_path / "a new folder"
    with tracked([name], spec, folder) as on_epoch:
        result = run(spec, on_epoch=on_epoch)
    called, settings, points = READ[name](folder)
    assert called.replace(" ", "-") == f"gread-bs-csbm-split-0-seed-0-{spec.key[:8]}"
    assert (settings["model"], settings["dataset"]) == ("gread-bs", "csbm")
    numbers = ("hyper.hidden_channels", "train.epochs", "options.num_nodes", "split", "seed")
    assert [float(settings[number]) for number in numbers] == [4, 3, 30, 0, 0]
    np.testing.assert_allclose(points, points_of(result), rtol=1e-6)
    assert run(spec).history == result.history  # tracking does not change results


@pytest.mark.parametrize("name", TRACKERS)
def test_missing_tracker_package_error_names_the_pip_extra(name, small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    sentence = rf"tracker '{name}' needs the package {name}: pip install 'gread\[{name}\]'"
    with pytest.raises(InputError, match=sentence), tracked([name], small(), tmp_path):
        pass


def test_an_unknown_tracker_is_refused(small, tmp_path):
    with (
        pytest.raises(InputError, match="unknown tracker 'wandv', did you mean 'wandb'"),
        tracked(["wandv"], small(), tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [("wandb", "WANDB_API_KEY", "short"), ("mlflow", "MLFLOW_TRACKING_URI", "nowhere://x")],
)
def test_tracker_start_error_raises_input_error(name, setting, value, small, tmp_path, monkeypatch):
    pytest.importorskip(name)
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv(setting, value)
    with (
        pytest.raises(InputError, match=f"tracker '{name}' does not start: "),
        tracked([name], small(), tmp_path),
    ):
        pass


def test_repeated_run_replaces_its_tensorboard_log(small, tmp_path):
    pytest.importorskip("tensorboard")
    for spec in (small(), small()):
        with tracked(["tensorboard"], spec, tmp_path) as on_epoch:
            result = run(spec, on_epoch=on_epoch)
    np.testing.assert_allclose(read_tensorboard(tmp_path)[2], points_of(result), rtol=1e-6)


@pytest.mark.slow
def test_mlflow_uses_the_tracking_uri_and_marks_failed_runs(small, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mine.sqlite'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(ZeroDivisionError), tracked(["mlflow"], small(), tmp_path / "other"):
        1 / 0  # noqa: B018
    assert mlflow_run(uri)[1].info.status == "FAILED"
    assert not list((tmp_path / "other").iterdir())
