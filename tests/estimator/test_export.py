"""Exported models give the same predictions without gread."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import gread
from gread import GraphClassifier
from gread.base.errors import InputError
from gread.estimator.attempt import predicted
from gread.estimator.automatic import Blend, Member
from gread.estimator.candidates import Candidate, built, portfolio
from gread.estimator.export import ABOUT, FORMATS, Scorer, _recorded, both_ways, export, scorer_of
from gread.estimator.problem import Problem
from gread.estimator.task import Classes
from gread.kernels.operators import PLAIN
from gread.models.catalog import MODELS

SMALL = {"hidden_channels": 8, "num_steps": 1}
DIRECTED = Candidate(
    "directed", "gread-x", {**SMALL, "direction": "both", "self_loops": 0.0}, directed=True
)
THREE = Classes((0, 1, 2), "accuracy")
PORTABLE = [one for one in portfolio() if not one.transductive() and not one.typed]
REFUSED = {
    "it has weights for every node": [n for n, e in MODELS.items() if e.transductive({})],
    "it needs structure of the graph": ["geom-gcn", "h2gcn", "wrgat"],
    "PyTorch reports": ["sheaf-diag", "sheaf-bundle", "sheaf-general"],
}
EXPORTED = [name for name in MODELS if not any(name in some for some in REFUSED.values())]


@pytest.fixture(scope="module")
def other():
    return gread.csbm(60, 3, homophily=0.8, degree=5, num_features=12, num_splits=1, seed=7)


@pytest.fixture(scope="module")
def one_way(data):
    """Graph in which some edges lack their reverse."""
    found = data.clone()
    kept = torch.rand(found.edge_index.size(1), generator=torch.Generator().manual_seed(0)) < 0.6
    found.edge_index = found.edge_index[:, kept]
    return found


SHORT = {"time": 0.1, "solver": "euler", "num_layers": 2, "num_steps": 1}
"""Settings with finite reactions and few operators; exporting each takes milliseconds."""


def trained(name, data, **changes):
    settings = {"epochs": 1, "hidden_channels": 8}
    known = MODELS[name].hyperparameters
    settings |= {key: value for key, value in (SHORT | changes).items() if key in known}
    return GraphClassifier(name, settings=settings).fit(data)


def inputs_of(classifier, graph):
    return classifier._inputs(classifier.read(graph))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_exported_program_matches_predictions_on_another_graph(data, other, name):
    classifier = trained(name, data)
    scorer, about = scorer_of(classifier)
    assert about["classes"] == [0, 1, 2]
    assert len(about["features"]) == 12
    program = _recorded(scorer, classifier, about)
    operators = {node.target for node in program.graph.nodes if node.op == "call_function"}
    assert {one for one in operators if str(one).startswith("gread")} <= PLAIN.keys()
    given = inputs_of(classifier, other)
    found = program.module()(given.x, given.edge_index)
    np.testing.assert_allclose(found.numpy(), classifier.predict_proba(other), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "reason"), [(name, reason) for reason, some in REFUSED.items() for name in some]
)
def test_exporting_an_unsupported_model_raises_a_one_line_error(
    data, tmp_path, capfd, name, reason
):
    classifier = trained(name, data)
    with pytest.raises(InputError, match=reason) as raised:
        classifier.export(tmp_path / "model.pt2")
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


WITHOUT = """
import json, sys
for name in ("gread", "torch_geometric", "scipy", "sklearn"):
    sys.modules[name] = None
import numpy, torch

about = {"about.json": ""}
program = torch.export.load("model.pt2", extra_files=about)
given = numpy.load("graph.npz")
found = program.module()(*map(torch.from_numpy, given.values()))
numpy.save("found.npy", found.numpy())
print(json.dumps(json.loads(about["about.json"])["classes"]))
"""


def test_both_ways_equals_to_undirected_of_pyg(one_way):
    """Compare with PyG's function, which drops duplicate edges instead of zeroing them."""
    from torch_geometric.utils import to_undirected

    weight = torch.rand(one_way.edge_index.size(1)) + 0.1
    edges, entries = both_ways(one_way.edge_index, weight, one_way.x)
    expected = to_undirected(one_way.edge_index, weight, reduce="mean", num_nodes=150)
    assert torch.equal(edges[:, entries > 0], expected[0])
    torch.testing.assert_close(entries[entries > 0], expected[1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("candidate", PORTABLE, ids=lambda one: one.title)
def test_directions_of_one_member_do_not_change_another(one_way, candidate, weighted):
    data = one_way.clone()
    data.train_mask = torch.zeros(150, dtype=torch.bool)
    if weighted:
        data.edge_weight = torch.rand(data.edge_index.size(1)) + 0.1
    module = built(candidate, 12, 3, 150).eval()
    view = Problem(data, np.arange(10), THREE).graph(candidate)
    view.train_mask = data.train_mask
    scorer = Scorer([module] * 2, [1.0, 0.0], [candidate, DIRECTED], THREE, THREE.loss, 1.0)
    if not candidate.directed:
        scorer.candidates[1] = replace(candidate, directed=True)
    with torch.no_grad():
        found = scorer(data.x, data.edge_index, data.edge_weight)
    np.testing.assert_allclose(found.numpy(), predicted(module, view, THREE), atol=1e-6)


def blend_of(data, *candidates):
    """Classifier with a blend of untrained candidates and a temperature."""
    classifier = GraphClassifier("auto").prepare(data)
    share = 1 / len(candidates)
    members = [
        Member(one, share, share, share, built(one, 12, 3, 150).eval()) for one in candidates
    ]
    classifier.blend_ = Blend(members, classifier.task_, (1.0, 1.7, 1.0))
    classifier.thresholds_ = None, None, None
    classifier.settings_, classifier.config_ = {}, classifier.config()
    return classifier


def test_blend_scorer_equals_the_classifier_probabilities(one_way):
    classifier = blend_of(one_way, replace(PORTABLE[1], scaling="binary"), DIRECTED)
    scorer, about = scorer_of(classifier)
    assert about["edges"] == "in their direction"
    given = inputs_of(classifier, one_way)
    expected = classifier.predict_proba(one_way)
    np.testing.assert_allclose(scorer(given.x, given.edge_index).numpy(), expected, atol=1e-6)


ROWS = Candidate("rows", "tuned-sage", SMALL, scaling="row")
ATTENTION = Candidate("BS", "gread-bs", {"hidden_channels": 8, "time": 0.1, "solver": "euler"})
BLENDS = {".pt2": (DIRECTED, ATTENTION), ".onnx": (DIRECTED, ROWS)}
"""Blends of few members: export time grows faster than the number of operators."""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FORMATS)
def test_exported_blend_is_one_file_that_runs_without_gread(one_way, tmp_path, suffix):
    """Edge weights are an input of the exported model."""
    data = one_way.clone()
    data.edge_weight = torch.rand(data.edge_index.size(1)) + 0.1
    classifier = blend_of(data, *BLENDS[suffix])
    given, file = inputs_of(classifier, data), tmp_path / f"model{suffix}"
    inputs = {name: getattr(given, name) for name in ("x", "edge_index", "edge_weight")}
    classes, found = RUN[suffix](classifier, file, inputs)
    assert classes == [0, 1, 2]
    np.testing.assert_allclose(found, classifier.predict_proba(data), atol=1e-6)


def run_pt2(classifier, file, inputs):
    """Classes and probabilities of an exported file, computed in a process without gread."""
    export(classifier, file)
    np.savez(file.with_name("graph.npz"), **inputs)
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT]
    shown = subprocess.run(command, cwd=file.parent, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout), np.load(file.with_name("found.npy"))


def run_onnx(classifier, file, inputs):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    about = export(classifier, file)
    session = onnxruntime.InferenceSession(file)
    stored = json.loads(session.get_modelmeta().custom_metadata_map[ABOUT])
    assert stored["classes"] == about["classes"]
    (found,) = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    return stored["classes"], found


RUN = {".pt2": run_pt2, ".onnx": run_onnx}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gat", "grand"])  # test_task.py has an MLP, BLENDS has GREAD-X
def test_onnx_gives_the_same_probabilities(data, other, tmp_path, name):
    classifier = trained(name, data, num_layers=1)
    given = inputs_of(classifier, other)
    inputs = {"x": given.x, "edge_index": given.edge_index}
    _, found = run_onnx(classifier, tmp_path / "model.onnx", inputs)
    np.testing.assert_allclose(found, classifier.predict_proba(other), atol=1e-6)


def test_unknown_export_format_raises_input_error(fitted, tmp_path):
    with pytest.raises(InputError, match=r"the file must end with .pt2 or .onnx, got"):
        fitted.export(tmp_path / "model.pt")


def test_onnx_export_without_its_packages_raises_input_error(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    monkeypatch.setattr("gread.estimator.export._recorded", lambda *given: None)
    with pytest.raises(InputError, match=r"pip install 'gread\[onnx\]'"):
        trained("mlp", data).export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
