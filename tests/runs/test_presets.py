import inspect
from importlib import resources

import pytest

from gread.base.errors import InputError
from gread.base.toml import read_toml
from gread.experiments.accuracy import DATASETS, GREAD
from gread.models.catalog import MODELS
from gread.runs.presets import SOURCES, find_preset
from gread.runs.spec import RunSpec

PRESETS = resources.files("gread.runs.presets")
FILES = [(source, file.name) for source in SOURCES for file in (PRESETS / source).glob("*.toml")]


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("model", GREAD)
def test_every_gread_model_can_be_built_with_its_presets(model, dataset):
    for source in ("paper", *(["published"] if model == "gread-bs" else [])):
        preset = find_preset(model, dataset, source)
        assert preset.source == source
        spec = RunSpec(dataset=dataset, model=model, hyper=preset.hyper, train=preset.train)
        hyper = dict(spec.hyper)
        MODELS[model].build(10, hyper.pop("hidden_channels"), 3, **hyper)
        assert preset.train.epochs == 200


@pytest.mark.parametrize(("source", "name"), FILES)
def test_preset_files_match_their_model_and_start_with_its_title(source, name):
    model = name.removesuffix(".toml").replace("-star", "*")
    training = {"lr", "weight_decay", "epochs", "patience", "metric", "options"}
    known = set(inspect.signature(MODELS[model].build).parameters) | training
    for dataset, settings in read_toml(f"runs/presets/{source}", name).items():
        assert set(settings) <= known
        hyper = dict(find_preset(model, dataset, source).hyper)
        MODELS[model].make(10, hyper.pop("hidden_channels", 8), 3, num_nodes=5, **hyper)
    text = (PRESETS / source / name).read_text()
    assert text.startswith(f"# {MODELS[model].title}")


def test_tuned_presets_take_precedence_and_defaults_come_last():
    assert find_preset("gread-bs", "cora") == find_preset("gread-bs", "cora", "tuned")
    assert find_preset("gread-bs", "cora", "published").hyper["time"] == 3.79018
    assert find_preset("gread-bs", "cora", "paper").hyper["time"] == 3.49
    assert find_preset("gcn", "cora").source == "published"
    assert find_preset("gread-bs", "csbm").source == "default"


@pytest.mark.parametrize("model", GREAD)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_reaction_is_tuned_on_every_dataset_of_the_paper(model, dataset):
    assert find_preset(model, dataset).source == "tuned"


def test_a_preset_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match=r"unknown preset 'mine'; .* tuned, published, paper"):
        find_preset("gread-bs", "cora", "mine")
    with pytest.raises(InputError, match="there is no preset 'published' for gread-f on cora"):
        find_preset("gread-f", "cora", "published")
    with pytest.raises(InputError, match="unknown model 'gread-y'"):
        find_preset("gread-y", "cora")


def test_user_toml_file_is_accepted_as_a_preset(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[cora]\ntime = 2.5\nlr = 0.5\n")
    preset = find_preset("gread-bs", "cora", str(path))
    assert (preset.hyper, preset.train.lr) == ({"time": 2.5}, 0.5)
    with pytest.raises(InputError, match=r"there is no preset '.*mine.toml' for gread-bs on texas"):
        find_preset("gread-bs", "texas", str(path))
    with pytest.raises(InputError, match=r"the file none.toml cannot be read"):
        find_preset("gread-bs", "cora", "none.toml")
