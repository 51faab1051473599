"""The catalogue of models agrees with the models, and is read without importing them."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

import gread
import gread.models
from gread.base.lazy import Reference
from gread.models.catalog import (
    MODELS,
    NUM_NODES,
    GraphSize,
    ModelEntry,
    flow_memory,
    integration_of,
    model,
)

SHIPPED = {name: entry for name, entry in MODELS.items() if isinstance(entry.build, Reference)}


@pytest.mark.parametrize("name", SHIPPED)
def test_hyperparameters_parsed_from_source_match_the_signature(name):
    entry = MODELS[name]
    keywords = {
        argument: parameter.default
        for argument, parameter in inspect.signature(entry.build.target).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert {**entry.build.keywords} == keywords
    assert list(entry.hyperparameters) == [
        argument for argument in keywords if argument not in {NUM_NODES, *entry.fixed}
    ]
    assert entry.fixed.keys() <= keywords.keys()


@pytest.mark.parametrize("name", SHIPPED)
def test_every_model_builder_has_a_docstring(name):
    assert inspect.getdoc(MODELS[name].build.target)


def test_listing_models_and_reactions_imports_neither_torch_nor_numpy():
    code = """
import sys
from gread.dynamics.reactions import REACTIONS
from gread.models.catalog import MODELS
REACTIONS.register("late")(lambda s: s.h)
assert all(entry.hyperparameters for entry in MODELS.values())
assert MODELS["gread-late"].fixed == {"reaction": "late"}
assert not {"torch", "numpy", "torch_geometric"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_models_leave_no_temporary_file(tmp_path):
    """PyG writes code for message passing classes to files that it does not remove."""
    code = """
import gread
for entry in gread.MODELS.values():
    entry.make(4, 8, 2, num_nodes=10)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert not list(tmp_path.iterdir())


def test_every_model_file_has_a_catalogue_entry():
    folder = Path(gread.models.__file__).parent
    shared = {"__init__", "attention", "base", "catalog", "continuous", "hub", "layers", "stacking"}
    shared |= {"steps"}
    files = {path.stem for path in folder.glob("*.py")} - shared
    named = {entry.build.path.split(":")[0].split(".")[2] for entry in SHIPPED.values()}
    assert files <= named


def test_hyperparameters_that_may_differ_within_a_population():
    rates, steps = {"input_dropout", "dropout"}, {"time", "step_size"}
    others = {"alpha", "beta", "normalization", "self_loops", "output_activation"}
    assert {*MODELS["gread-bs"].population.own({})} == rates | steps | others
    assert "alpha" not in MODELS["gread-bs"].population.own({"alpha": "matrix"})
    assert {*MODELS["grand"].population.own({"linear": True})} == rates | steps
    assert {*MODELS["grand"].population.own({"linear": False})} == rates
    declared = {name for name, entry in SHIPPED.items() if entry.population}
    tuned = {"gread-x", "tuned-gcn", "tuned-sage"}
    assert declared == {"grand", *tuned, *(f"gread-{r}" for r in gread.REACTIONS)}


def test_memory_estimate_of_a_member_equals_its_formula():
    size = GraphSize(nodes=100, edges=400, features=30, nonzeros=900)
    bare = {"hidden_channels": 8, "time": 2.0, "step_size": 0.5, "solver": "rk4"}
    assert flow_memory(bare | {"adjacency": "original"}, size) == 4 * (
        100 * 8 * 24 + 4 * 900 + 8 * (30 + 24) * 8
    )
    linear = flow_memory(bare, size)
    assert linear == flow_memory(bare | {"adjacency": "original"}, size) + 4 * 20 * 400
    changing = flow_memory(bare | {"linear": False, "heads": 2}, size)
    assert changing == linear + 4 * (100 * 8 * 3 * 16 + 4 * 400 * 2 * 16)
    assert integration_of({}).evaluations == 1
    layered = MODELS["gread-x"].population.memory({"hidden_channels": 8, "num_steps": 3}, size)
    assert layered == 4 * (100 * 8 * 56 + 4 * 900 + 8 * (30 + 120) * 8)


def test_records_shardable_and_diagnosed_models_are_declared():
    assert MODELS["gread-bs"].records == ("energy", "evaluations", "coefficients")
    assert MODELS["grand"].records == ("energy", "evaluations")
    assert MODELS["gcn"].records == ()
    shardable = {name for name, entry in SHIPPED.items() if entry.shardable}
    diagnosed = {name for name, entry in SHIPPED.items() if entry.diagnosed}
    assert "gread-bs" in diagnosed
    assert shardable == diagnosed | {"gread-x", "tuned-gcn", "tuned-sage"}


def test_registered_user_model_has_a_complete_entry():
    @model("mine", title="Mine", group="classical", reference="ours, 2026", added={"extra": 1})
    def mine(
        in_channels: int, hidden_channels: int, out_channels: int, *, width: int = 3, extra: int = 1
    ) -> nn.Module:
        """Model of one layer."""
        return nn.Linear(in_channels, out_channels)

    try:
        entry = MODELS["mine"]
        assert isinstance(entry, ModelEntry)
        assert entry.hyperparameters == {"width": 3, "extra": 1}
        assert entry.added == {"extra": 1}
        assert entry.year == 2026
        assert entry.fixed == {}
        assert entry.make(4, 8, 2, num_nodes=5).out_features == 2
    finally:
        del MODELS._entries["mine"]
