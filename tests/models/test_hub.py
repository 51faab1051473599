import json
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

import gread
from gread.base.errors import InputError

pytest.importorskip("huggingface_hub")


@pytest.fixture
def model():
    return gread.GREAD(3, 4, 2, reaction="fb", time=2.0, adjacency="original", dropout=0.1).double()


def test_saved_and_loaded_model_gives_the_same_output(model, graph, tmp_path):
    model.save_pretrained(tmp_path / "m")
    loaded = gread.GREAD.from_pretrained(tmp_path / "m").double()
    assert (loaded.time, loaded.training) == (2.0, False)
    expected = model.eval()(graph.x, graph.edge_index)
    torch.testing.assert_close(loaded(graph.x, graph.edge_index), expected, rtol=1e-6, atol=1e-6)


def test_saving_and_loading_do_not_use_pickle(model, tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "dump", "dumps", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    model.save_pretrained(tmp_path / "m")
    names = {path.name for path in (tmp_path / "m").iterdir()}
    assert names == {"config.json", "model.safetensors", "README.md"}
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert config["reaction"] == "fb"
    assert config["in_channels"] == 3
    gread.GREAD.from_pretrained(tmp_path / "m")


def test_model_card_lists_metrics_fingerprint_and_versions(model, tmp_path):
    known = {"fingerprint": "abc", "metrics": {"accuracy": 0.9}}
    model.save_pretrained(tmp_path / "m", model_card_kwargs=known)
    card = (tmp_path / "m" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: gread\n")
    assert "| accuracy | 0.9000 |" in card
    assert "`abc`" in card
    assert f"- torch {torch.__version__.partition('+')[0]}" in card


def test_a_reaction_without_a_name_cannot_be_saved(tmp_path):
    for reaction in (lambda s: -s.h, nn.Identity()):
        model = gread.GREAD(3, 4, 2, reaction=reaction)
        with pytest.raises(InputError, match="reaction must be a plain value"):
            model.save_pretrained(tmp_path / "m")
    gread.GREAD(3, 4, 2, reaction=None).save_pretrained(tmp_path / "n")
    assert gread.GREAD.from_pretrained(tmp_path / "n").layer.reaction is None


@pytest.mark.parametrize("broken", ["model.safetensors", "config.json"])
def test_corrupt_model_folder_raises_input_error(model, tmp_path, broken):
    model.save_pretrained(tmp_path / "m")
    (tmp_path / "m" / broken).write_text("{}")
    with pytest.raises(InputError, match="must hold"):
        gread.GREAD.from_pretrained(tmp_path / "m")


@pytest.mark.slow
def test_missing_huggingface_hub_raises_an_error_with_install_command(tmp_path):
    code = (
        "import sys\n"
        "sys.modules['huggingface_hub'] = None\n"
        "import gread\n"
        "model = gread.GREAD(3, 4, 2, reaction='st')\n"
        "for call in (model.save_pretrained, gread.GREAD.from_pretrained):\n"
        "    try:\n"
        "        call('x')\n"
        "    except gread.InputError as error:\n"
        "        print(error)\n"
    )
    # A new interpreter, because a forked process may have imported the library before.
    program = [sys.executable, "-c", code]
    shown = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path)
    assert shown.stdout.count("needs huggingface_hub: pip install 'gread[hub]'") == 2, shown.stderr
