import math
from importlib import resources

import optuna
import pytest

from gread.base.errors import InputError
from gread.experiments.protocol import DATASETS, GREAD
from gread.models.catalog import MODELS
from gread.runs.presets import find_preset
from gread.search.report import preset_table
from gread.search.space import Choice, Range, Space, read_space
from gread.search.study import StudySettings

SHIPPED = [
    file.name.removesuffix(".toml")
    for file in resources.files("gread").joinpath("search", "spaces").iterdir()
    if file.name != "gread.toml"
]
MISPRINTS = {("gread-st", "texas", "hidden_channels"), ("gread-st", "squirrel", "dropout")}
"""Printed values outside of the search space: 126 channels and a dropout of 0.95."""


def draws(space, number=40):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    return [space.suggest(study.ask()) for _ in range(number)]


@pytest.mark.parametrize("model", GREAD)
def test_shipped_space_contains_all_published_and_printed_best_values(model):
    space = read_space(model)
    for source in ("paper", *(["published"] if model == "gread-bs" else [])):
        for dataset in DATASETS:
            preset = find_preset(model, dataset, source)
            training = {"lr": preset.train.lr, "weight_decay": preset.train.weight_decay}
            for name, value in {**preset.hyper, **training}.items():
                if (model, dataset, name) in MISPRINTS or value == 0.0 == training.get(name):
                    continue  # the appendix prints 0.0000 below 5e-5
                part = space.parts.get(name, Choice((space.fixed.get(name),)))
                if isinstance(part, Range):
                    assert part.low <= value <= part.high, (dataset, name)
                else:
                    assert value in part.values, (dataset, name)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_space_fits_its_model(name):
    space = read_space(name)
    assert {"lr", "weight_decay"} <= space.parts.keys()
    assert "epochs" in space.fixed


def test_shipped_gread_bs_space_matches_the_paper():
    space = read_space("gread-bs")
    assert space.fixed == {"epochs": 200}
    assert space.parts["hidden_channels"] == Choice((32, 64, 128, 256))
    assert space.parts["time"] == Range(0.1, 6.0)
    assert space.parts["step_size"] == Range(0.1, 1.5)
    assert "dopri5" not in space.parts["solver"].values


def test_model_table_overrides_entries_of_that_model_only():
    assert read_space("gread-f").fixed["encoder"] == "linear"
    assert "positive-vector" in read_space("gread-z").parts["beta"].values
    assert read_space("gread-bs").parts["encoder"] == Choice(("linear", "mlp"))


def test_draws_lie_in_the_space_and_have_four_digits(space):
    for settings in draws(space):
        assert set(settings) == set(space.table)
        assert settings["epochs"] == 2
        assert settings["hidden_channels"] in (4, 8)
        assert 0.1 <= settings["time"] <= 3.0
        assert settings["lr"] == float(f"{settings['lr']:.4g}")


def test_rounding_keeps_values_inside_the_range():
    space = Space("gread-bs", {"dropout": {"low": 0.99994, "high": 0.999999}})
    assert all(0.99994 <= settings["dropout"] <= 0.999999 for settings in draws(space))


def test_whole_bounds_give_whole_numbers():
    space = Space("gcn", {"num_layers": {"low": 2, "high": 4}})
    assert {settings["num_layers"] for settings in draws(space)} == {2, 3, 4}


def test_logarithmic_range_is_sampled_log_uniformly():
    space = Space("gread-bs", {"lr": {"low": 1e-4, "high": 1e-2, "log": True}})
    below = [settings["lr"] < 1e-3 for settings in draws(space, 400)]
    assert 0.4 < sum(below) / 400 < 0.6


def test_settings_are_reproduced_from_the_trial_parameters(space):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    trial = study.ask()
    settings = space.suggest(trial)
    assert space.suggest(optuna.trial.FixedTrial(trial.params)) == settings


def test_distance_scales_every_range_to_one(space):
    one = {"hidden_channels": 4, "time": 0.1, "lr": 1e-3}
    assert space.distance(one, one) == 0
    assert space.distance(one, one | {"time": 3.0}) == pytest.approx(1)
    assert space.distance(one, one | {"lr": 1e-2}) == pytest.approx(0.5)
    other = {"hidden_channels": 8, "time": 3.0, "lr": 1e-1}
    assert space.distance(one, other) == pytest.approx(math.sqrt(3))


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"tme": [1.0]}, "gread-bs has no hyperparameter 'tme', did you mean 'time'?"),
        ({"weigth_decay": [1.0]}, "did you mean 'weight_decay'?"),
        ({"time": {"low": 1.0}}, r"time must be a range like \{ low = 0.1"),
        ({"time": {"low": 1.0, "high": 2.0, "lgo": True}}, "time must be a range like"),
        ({"time": {"low": "a", "high": "b"}}, "time must be a range like"),
        ({"time": {"low": 2.0, "high": 1.0}}, "time must have a low below its high"),
        ({"lr": {"low": 0.0, "high": 1.0, "log": True}}, "lr must have a low above zero"),
        ({"time": []}, "time must be a list of values"),
        ({"time": [[1.0]]}, "time must be a list of values"),
        ({"time": 1.0}, "a space must have a choice or a range, got none"),
        ({"dropout": {"low": 0.0, "high": 1.5}}, r"dropout must be a number in \[0, 1\), got 1.5"),
        ({"solver": ["euler", "rk5"]}, "unknown solver 'rk5', did you mean 'rk4'"),
        ({"lr": [-1.0]}, "lr must be a positive number, got -1.0"),
        ({"lr": [0.1], "hidden_channels": 0.5}, "must be a whole number"),
    ],
)
def test_invalid_spaces_raise_input_errors(table, sentence):
    with pytest.raises(InputError, match=sentence):
        Space("gread-bs", table)


@pytest.mark.parametrize("low", [8, 1000])
@pytest.mark.parametrize("length", [9, 1001])
def test_integers_inside_a_range_are_checked(low, length):
    table = {"hidden_channels": {"low": low, "high": low + length - 1}, "heads": [4]}
    sentence = f"hidden_channels must be a multiple of 4 heads, got {low + 1}"
    with pytest.raises(InputError, match=sentence):
        Space("tuned-gat", table)


def test_every_integer_of_a_short_range_is_checked():
    assert Range(2, 5).values == (2, 3, 4, 5)
    assert Range(1, 128).values == tuple(range(1, 129))
    assert Range(1, 1000, log=True).values == (*range(1, 128), 1000)
    assert Range(1, 5.0).values == (1, 5.0)


def test_a_value_is_checked_together_with_the_other_entries():
    with pytest.raises(InputError, match="hidden_channels must be a multiple of 4 heads, got 66"):
        Space("gat-sep", {"hidden_channels": [64, 66], "heads": 4})
    for heads in (3, [3, 6]):
        Space("gat-sep", {"hidden_channels": [66, 72], "heads": heads})


def test_missing_search_space_error_suggests_the_space_option(monkeypatch):
    monkeypatch.setitem(MODELS._entries, "mine", MODELS["gcn"])
    with pytest.raises(InputError, match=r"no search space for mine: write one .* --space FILE"):
        read_space("mine")
    with pytest.raises(InputError, match="unknown model 'gread-y'"):
        read_space("gread-y")


def test_space_file_errors_name_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("num_layers = [1, 2]\n[gread-bs]\ntime = [1.0]\n")
    assert read_space("gcn", path).parts == {"num_layers": Choice((1, 2))}
    with pytest.raises(InputError, match=r"mine.toml does not fit: gread-bs has no hyperp"):
        read_space("gread-bs", path)
    path.write_text("time = ")
    with pytest.raises(InputError, match=r"mine.toml cannot be read: "):
        read_space("gread-bs", path)
    with pytest.raises(InputError, match=r"none.toml cannot be read: "):
        read_space("gread-bs", tmp_path / "none.toml")


def test_sampled_dataset_options_reach_runs_and_presets():
    space = Space("mlp", {"lr": [0.01, 0.02], "options.normalize_features": [False, True]})
    plan = StudySettings("texas", "mlp", space.table, "random", False, [0], [0])
    for drawn in (False, True):
        trial = optuna.trial.FixedTrial({"lr": 0.01, "options.normalize_features": drawn})
        settings = space.suggest(trial)
        (spec,) = plan.specs(settings)
        assert spec.options == {"normalize_features": drawn}
        assert f"options = {{ normalize_features = {str(drawn).lower()} }}" in preset_table(
            "texas", [], settings, {}
        )
