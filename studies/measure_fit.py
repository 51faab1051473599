"""Measure `gread fit` on benchmark graphs written as user files (docs/own-graph.md).

    python studies/measure_fit.py [GRAPH[:SPLIT] ...] [-- OPTION ...]

Run it in the repository's root; options after ``--`` are passed to `gread fit`. The files do not
contain labels of test nodes; predictions of the model folder for them are scored. With SPLIT
``own`` the files contain all labels, and the test nodes that the command draws are scored, for
seeds 0 to 4. Prints accuracy and expected calibration error of the test nodes, and the seconds of
`gread fit`.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

import gread
from gread.estimator.scores import Scores, score

GRAPHS = ("wisconsin", "amazon-computers", "coauthor-cs", "arxiv-year:0", "arxiv-subject:0")
OWN = "own"
"""The split that the command draws from all labels."""

SEEDS = 5
"""Number of such splits."""

DIRECTED = {"wisconsin": False, "arxiv-year": True, "arxiv-subject": True}
"""Graphs written as CSV, and whether they are directed.

The others have sparse features in a second file.
"""


def write(folder: Path, name: str, unknown: NDArray[np.bool_]) -> list[str]:
    """Write the files of a graph, and return the options of `gread fit`."""
    data = gread.load(name, **({"directed": True} if DIRECTED.get(name) else {}))
    nodes = pd.DataFrame({"id": np.arange(data.num_nodes), "class": data.y.numpy()})
    nodes["class"] = nodes["class"].astype("Int64").mask(unknown)
    options = ["--nodes", f"{folder}/nodes.csv"]
    if name in DIRECTED:
        x = data.x.numpy()
        columns = {f"f{k}": x[:, k] for k in range(x.shape[1])}
        nodes = pd.concat([nodes, pd.DataFrame(columns)], axis=1)
    else:
        sparse.save_npz(folder / "x.npz", sparse.csr_matrix(data.x.numpy()))
        options += ["--nodes", f"{folder}/x.npz"]
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges = pd.DataFrame(data.edge_index.T.numpy(), columns=["source", "target"])
    edges.to_csv(folder / "edges.csv", index=False)
    return [*options, "--edges", f"{folder}/edges.csv", "--label", "class"]


def run(*words: str) -> str:
    """Run a gread command, and return its output."""
    command = [sys.executable, "-m", "gread", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure(name: str, split: int, own: bool, more: list[str]) -> dict[str, float]:
    """Scores of one graph and split."""
    data = gread.load(name)
    unknown = np.zeros(data.num_nodes, dtype=bool) if own else data.test_mask[:, split].numpy()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        options = write(folder, name, unknown)
        begin = time.monotonic()
        run("fit", *options, "--out", f"{folder}/model", *more)
        seconds = time.monotonic() - begin
        if own:
            found = gread.GraphClassifier.load(folder / "model").scores()
            assert isinstance(found, Scores)
        else:
            run("predict", f"{folder}/model", "--out", f"{folder}/predictions.csv")
            found = scored(pd.read_csv(folder / "predictions.csv"), data.y.numpy(), unknown)
    return {"accuracy": 100 * found.accuracy, "ECE": found.calibration_error, "seconds": seconds}


def scored(predictions: pd.DataFrame, y: NDArray[np.int64], unknown: NDArray[np.bool_]) -> Scores:
    """Scores of the predictions for all nodes whose labels are unknown to the command."""
    test = predictions["id"].to_numpy()
    assert set(test) == set(unknown.nonzero()[0])
    shares = predictions.filter(regex="^p_").to_numpy()
    return score(y[test], shares, predictions["prediction"].to_numpy(), "accuracy")


def main() -> None:
    """Print one line per graph and split, and means over splits."""
    given = sys.argv[1:]
    more = given[given.index("--") + 1 :] if "--" in given else []
    names = given[: given.index("--")] if "--" in given else given
    for one in names or GRAPHS:
        name, _, only = one.partition(":")
        own = only == OWN
        found = []
        for split in range(SEEDS) if own else [int(only)] if only else range(10):
            seed = ["--seed", str(split)] if own else []
            found.append(measure(name, split, own, [*seed, *more]))
            print(name, split, {k: round(v, 3) for k, v in found[-1].items()}, flush=True)
        if len(found) > 1:
            means = pd.DataFrame(found).mean()
            print(name, "mean", {k: round(v, 3) for k, v in means.items()}, flush=True)


if __name__ == "__main__":
    main()
