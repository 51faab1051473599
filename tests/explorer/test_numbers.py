"""Numbers of the page compared with those of the library."""

import json
import re
import shutil
import subprocess
from importlib import resources

import numpy as np
import pytest
import torch
from torch_geometric.utils import to_undirected

from gread.dynamics.integrate import integrate
from gread.dynamics.reactions import REACTIONS, State
from gread.dynamics.tableau import SOLVERS, Tableau
from gread.explorer.page import SCRIPTS, reactions, solvers
from gread.graph.adjacency import NORMALIZATIONS, OriginalAdjacency
from gread.graph.measures import dirichlet_energy, edge_homophily
from gread.report.page import SHARED_SCRIPTS

FIXED = [name for name, solver in SOLVERS.items() if isinstance(solver, Tableau)]
PLAIN = ("operator", "integrate", "stability", "graphs", "starts", "files", "simulation")
TIME, STEP = 1.7, 0.25  # the last step is shorter
ALPHA, BETA = 0.7, -0.45


SERVE = """
require("readline").createInterface({ input: process.stdin }).on("line", async (line) => {
  const [expression, input] = JSON.parse(line);
  const show = (value, error) => console.log(JSON.stringify([value ?? null, error]));
  try { show(await eval(`(${expression})`), null); } catch (error) { show(null, error.stack); }
});
"""


def source(names):
    return "\n".join(
        resources.files("gread").joinpath(*name.split("/")).read_text("utf-8") for name in names
    )


@pytest.fixture(scope="module")
def javascript(tmp_path_factory):
    """Function that evaluates a JavaScript expression with the page's functions and ``input``."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node: Debian's package is called nodejs")
    code = source(["report/page/dom.js", *(f"explorer/page/{name}.js" for name in PLAIN)])
    script = tmp_path_factory.mktemp("javascript") / "script.js"
    script.write_text(code + SERVE)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

    def evaluate(expression, **given):
        print(json.dumps([expression, given]), file=server.stdin, flush=True)
        value, error = json.loads(server.stdout.readline())
        assert error is None, error
        return value

    with subprocess.Popen([node, script], **pipes) as server:
        yield evaluate
        server.stdin.close()


@pytest.fixture(scope="module")
def graph():
    """Graph of forty nodes with weighted edges; one node has no neighbours."""
    generator = np.random.default_rng(0)
    pairs = sorted({tuple(sorted(pair)) for pair in generator.integers(0, 39, (90, 2)).tolist()})
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    weights = generator.uniform(0.5, 2.0, len(pairs))
    edge_index, weight = to_undirected(
        torch.tensor(pairs).T, torch.from_numpy(weights), num_nodes=40
    )
    h0 = torch.from_numpy(generator.uniform(0, 1, (40, 1)))
    return {
        "given": {
            "count": 40,
            "pairs": [node for pair in pairs for node in pair],
            "weights": weights.tolist(),
            "h0": h0.flatten().tolist(),
        },
        "edges": (edge_index, weight),
        "h0": h0,
    }


def operator(graph, normalization, loops):
    made = OriginalAdjacency(normalization=normalization, self_loops=loops)
    return made(graph["h0"], *graph["edges"])


OPERATOR = "operatorOf(input.count, input.pairs, Float64Array.from(input.weights), input.how)"


@pytest.mark.parametrize("loops", [0.0, 1.0])
@pytest.mark.parametrize("normalization", list(NORMALIZATIONS))
def test_adjacency_products_match_the_library(javascript, graph, normalization, loops):
    how = {"normalization": normalization, "loops": loops}
    found = javascript(
        f"[...multiply({OPERATOR}, Float64Array.from(input.h0), new Float64Array(input.count))]",
        how=how,
        **graph["given"],
    )
    expected = operator(graph, normalization, loops) @ graph["h0"]
    np.testing.assert_allclose(found, expected.flatten(), atol=1e-12)


@pytest.mark.parametrize("solver", FIXED)
@pytest.mark.parametrize("reaction", [found["name"] for found in reactions()])
def test_integrated_states_match_the_library(javascript, graph, reaction, solver):
    how = {"normalization": "symmetric", "loops": 1.0}
    (about,) = [found for found in reactions() if found["name"] == reaction]
    (table,) = [found for found in solvers() if found["name"] == solver]
    found = javascript(
        "(() => { const h0 = Float64Array.from(input.h0);"
        f"const slope = problemOf({OPERATOR}, input.terms, input.alpha, input.beta, h0);"
        "return [...integrated(slope, h0, input.time, input.step, input.table)]; })()",
        how=how,
        terms=about["terms"],
        table=table,
        alpha=ALPHA,
        beta=BETA,
        time=TIME,
        step=STEP,
        **graph["given"],
    )
    adj, h0 = operator(graph, "symmetric", 1.0), graph["h0"]

    def slope(t, h):
        lh = adj.laplacian(h)
        return -ALPHA * lh + BETA * REACTIONS[reaction](State(h, h0, lh, adj))

    expected = integrate(slope, h0, TIME, solver=solver, step_size=STEP).final
    assert (expected - h0).abs().max() > 0.1
    np.testing.assert_allclose(found, expected.flatten(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(found, expected.flatten(), rtol=1e-12, atol=1e-12)


def test_all_seven_reactions_and_all_fixed_solvers_are_on_the_page():
    assert {found["name"] for found in reactions()} >= {"f", "ac", "z", "bs", "st", "fb", "fb*"}
    assert [found["name"] for found in solvers()] == FIXED


def test_painting_and_seeking_give_the_states_of_a_new_simulation(javascript, graph):
    """Painting and moving in time give the same states as a new start."""
    found = javascript(
        """(() => {
          const graph = GRAPHS.grid.make({ n: 25 });
          const how = { normalization: "row", loops: 0 };
          const operator = operatorOf(25, graph.pairs, graph.weights, how);
          const terms = { source: 1, linear: 0, square: 0, cube: 0, laplacian: 0, blurred: 0 };
          const starts = startOf("noise", graph, 1, 0);
          const setting = (strokes) => ({ graph, operator, starts, strokes,
            processes: [{ name: "st", terms, coefficients: [{ alpha: 1, beta: 0.1 }] }],
            tableau: { a: [], b: [1] }, tau: 0.3, time: 3 });
          const live = new Simulation(setting([]));
          live.paint({ channel: 0, x: 0.5, y: 0.5, reach: 0.2, value: 2 });
          live.seek(4);
          live.paint({ channel: 0, x: 0.1, y: 0.1, reach: 0.2, value: -1 });
          live.seek(10);
          live.seek(2);
          live.seek(10);
          const again = new Simulation(setting(live.strokes));
          again.seek(10);
          const energies = (made) => made.measures.map(([now]) => now.energy);
          return [live, again].map((made) => ({
            t: made.t, h: [...made.states[0][0]], energy: energies(made) }));
        })()"""
    )
    assert found[0] == found[1]
    assert found[0]["t"] == 3
    assert len(found[0]["energy"]) == 11


def test_energy_and_homophily_match_the_library(javascript, graph):
    found = javascript(
        "dirichletEnergy(input.count, input.pairs, input.weights, input.h0)", **graph["given"]
    )
    assert found == pytest.approx(dirichlet_energy(graph["h0"], *graph["edges"]).item())
    made = javascript(
        "(({ pairs, classes, ...graph }) => ({ share: homophilyOf({ pairs, classes }),"
        "pairs: [...pairs], classes: [...classes] }))"
        "(GRAPHS.sbm.make({ n: 300, degree: 12, seed: 3, homophily: 0.3, blocks: 3 }))"
    )
    edge_index = torch.tensor(made["pairs"]).view(-1, 2).T
    assert made["share"] == pytest.approx(edge_homophily(edge_index, torch.tensor(made["classes"])))
    assert made["share"] == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("normalization", ["symmetric", "row", "column"])
def test_spectrum_bounds_and_density_match_dense_eigenvalues(javascript, graph, normalization):
    how = {"normalization": normalization, "loops": 1.0}
    low, high = javascript(f"extremes({OPERATOR})", how=how, **graph["given"])
    dense = operator(graph, normalization, 1.0) @ torch.eye(40, dtype=torch.float64)
    eigenvalues = torch.linalg.eigvals(dense).real
    assert low == pytest.approx(eigenvalues.min().item(), abs=1e-6)
    assert high == pytest.approx(eigenvalues.max().item(), abs=1e-6)
    # The spectrum of an eigenvector is concentrated at its eigenvalue.
    values, vectors = torch.linalg.eigh(operator(graph, "symmetric", 1.0) @ torch.eye(40).double())
    lambdas = np.cos(np.linspace(np.pi, 0, 101)).tolist()
    density = javascript(
        f"spectralDensity(symmetricForm({OPERATOR}), Float64Array.from(input.h), input.lambdas)",
        **graph["given"],
        how={"normalization": "symmetric", "loops": 1.0},
        h=vectors[:, 20].tolist(),
        lambdas=lambdas,
    )
    assert lambdas[int(np.argmax(density))] == pytest.approx(values[20].item(), abs=0.06)
    assert np.mean(density) * np.pi == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("solver", FIXED)
def test_step_growth_matches_the_stability_polynomial_of_the_solver(javascript, solver):
    (table,) = [found for found in solvers() if found["name"] == solver]
    places = np.linspace(-3, 1, 9)
    found = javascript("input.places.map(growthOf(input.table))", table=table, places=list(places))
    np.testing.assert_allclose(found, np.polyval(SOLVERS[solver].growth[::-1], places))


def test_stability_warnings_state_the_kind_and_a_stable_step_size(javascript):
    """With α = β = 1 on a bipartite graph, BS with rk4 needs τ < 0.70."""
    terms = {found["name"]: found["terms"] for found in reactions()}
    (table,) = [found for found in solvers() if found["name"] == "rk4"]

    def warning(reaction, tau, beta=1.0, span=(0.0, 1.0)):
        return javascript(
            "warningOf(input.terms, [{ alpha: 1, beta: input.beta }], [-1, 1], input.span,"
            "input.tau, input.table)",
            terms=terms[reaction],
            table=table,
            tau=tau,
            beta=beta,
            span=span,
        )

    assert warning("bs", 0.69) is None
    found = warning("bs", 0.71)
    assert found["kind"] == "step"
    assert "choose τ ≤ 0.696" in found["text"]
    assert warning("fb", 0.1, beta=1.5)["kind"] == "growth"
    assert warning("f", 0.1) is None
    assert warning("f", 0.1, span=(-0.2, 1.0))["kind"] == "runaway"
    assert "above 1" in warning("ac", 0.1, beta=-1.0, span=(0.0, 1.2))["text"]
    assert warning("ac", 3.0)["kind"] == "step"


def test_karate_club_graph_matches_networkx(javascript):
    networkx = pytest.importorskip("networkx")
    club = networkx.karate_club_graph()
    made = javascript(
        "(({ pairs, classes }) => [[...pairs], [...classes]])(GRAPHS.karate.make({}))"
    )
    pairs = {tuple(pair) for pair in np.reshape(made[0], (-1, 2)).tolist()}
    assert pairs == {tuple(sorted(edge)) for edge in club.edges}
    assert made[1] == [int(club.nodes[node]["club"] != "Mr. Hi") for node in club]


GOOD = {
    "edges.csv": "source,target,weight\na,b,2\nb,c,1\nc,a,0.5\n",
    "spaces.csv": "source, target, weight\na, b, 2\nb ,c , 1\nc;  a; 0.5\n",
    "edges.txt": "# a comment\n0 1\n1\t2\n\n2 0\n1 0\n2 2\n",
    "graph.json": json.dumps(
        {
            "nodes": [
                {"id": k, "x": k, "y": k * k, "class": "odd" if k % 2 else "even"} for k in range(3)
            ],
            "links": [
                {"source": 0, "target": 1},
                {"source": 1, "target": 2},
                {"source": 0, "target": 2},
            ],
        }
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_graph_files_are_parsed_and_preserved_in_links(javascript, name):
    show = "((g) => [g.count, [...g.pairs], [...g.weights], [...g.classes], g.names, g.labels])"
    made, through = javascript(
        "(async () => { const graph = graphFromText(input.text, input.name);"
        "const link = await unpacked(await packed(graph));"
        f"return [graph, link].map({show}); }})()",
        text=GOOD[name],
        name=name,
    )
    assert made == through
    assert made[0] == 3
    assert len(made[2]) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must hold edges between at least two nodes, got none"),
        ("a,b\nc\n", "line 2: expected source, target"),
        ("a,b,heavy\n", "line 1: expected a weight above zero, got “heavy”"),
        ("a,b,-1\n", "expected a weight above zero"),
        ("a,a\nb,b\n", "has no edges between different nodes"),
        ('{"nodes": [', "is not valid JSON"),
        ('{"vertices": []}', "must have a list “edges” or “links”, got vertices"),
        ('{"nodes": [{"id": 1}], "edges": [[1, 2]]}', "edge 1: expected the id of a node, got 2"),
        ('{"edges": [{"source": 1}]}', "edge 1: expected the id of a node, got nothing"),
        ('{"edges": [[1, 2, 1e999]]}', "edge 1: expected a weight above zero"),
        ("a,,b\n", "line 1: expected source, target"),
        ('{"edges": [null]}', "edge 1: expected the id of a node"),
        ("null", "line 1: expected source, target"),
        ("\x00\x01\x02", "line 1: expected source, target"),
    ],
)
def test_malformed_graph_file_error_states_the_file_and_the_cause(javascript, text, said):
    found = javascript(
        "(() => { try { graphFromText(input.text, 'my.file'); return null; }"
        "catch (error) { return [error instanceof FileProblem, error.message]; } })()",
        text=text,
    )
    assert found[0], found
    assert found[1].startswith("my.file")
    assert said in found[1]


def test_scripts_define_no_top_level_name_twice():
    names = re.findall(
        r"^(?:async )?(?:function|class|const|let) (\w+)",
        source([*SHARED_SCRIPTS, *SCRIPTS]),
        re.MULTILINE,
    )
    assert len(names) > 100
    assert len(names) == len(set(names)), {name for name in names if names.count(name) > 1}
