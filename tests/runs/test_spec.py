from dataclasses import replace

import pytest

from gread.base.errors import InputError
from gread.runs.complete import complete
from gread.runs.spec import RunSpec
from gread.training.config import TrainConfig
from tests.processes import Forked


def test_omitted_hyperparameters_get_model_defaults(small):
    spec = small()
    assert spec.hyper["solver"] == "rk4"
    assert spec.hyper["hidden_channels"] == 4
    assert small(hyper={}).hyper["hidden_channels"] == 64
    assert small(hyper=dict(spec.hyper)).key == spec.key


def test_key_changes_with_every_field_of_the_spec(small):
    spec = small()
    changed = [
        replace(spec, split=1),
        replace(spec, seed=1),
        replace(spec, model="gread-fb"),
        replace(spec, dataset="digits", options={}),
        replace(spec, options={"num_nodes": 31}),
        replace(spec, hyper={**spec.hyper, "time": 2.0}),
        replace(spec, train=TrainConfig(epochs=4)),
        replace(spec, train=TrainConfig(parts=2)),
        replace(spec, train=TrainConfig(parts=2, halo=1)),
        replace(spec, record=("energy",)),
    ]
    keys = {spec.key, *(other.key for other in changed)}
    assert len(keys) == 1 + len(changed)
    assert len({spec, *changed}) == len(keys)


def test_the_key_is_the_same_in_another_process(small):
    code = f"from gread.runs import RunSpec; print(RunSpec.from_json({small().to_json()!r}).key)"
    other = Forked("-c", code).end()
    assert other.stdout.strip() == small().key


def test_whole_graph_training_omits_parts_and_keeps_its_key(small):
    assert "parts" not in small().to_json()
    assert complete(RunSpec(dataset="texas", model="gread-bs")).key == "fb29a9a9b1ca3bd59f4c"
    parted = small(train=TrainConfig(parts=3, halo=1))
    assert RunSpec.from_json(parted.to_json()) == parted


def test_spec_json_round_trip_gives_an_equal_spec(small):
    spec = small(record=("energy",), seed=3)
    assert RunSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dataset": "coora"}, "unknown dataset 'coora', did you mean 'cora'?"),
        ({"model": "gred-bs"}, "unknown model 'gred-bs', did you mean 'gread-bs'?"),
        ({"hyper": {"tme": 1.0}}, "gread-bs has no hyperparameter 'tme', did you mean 'time'?"),
        ({"split": -1}, "split must be a whole number of at least 0, got -1"),
        ({"seed": 0.5}, "seed must be a whole number of at least 0, got 0.5"),
    ],
)
def test_invalid_specs_raise_input_errors_before_they_run(small, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        small(**changes)
