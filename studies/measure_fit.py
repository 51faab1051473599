"""Measure `gread fit` on benchmark graphs written as user files (docs/own-graph.md).

    python studies/measure_fit.py [GRAPH[:SPLIT] ...] [-- OPTION ...]

Run it in the repository's root; options after ``--`` are passed to `gread fit`. The files do not
contain labels of test nodes; predictions of the model folder for them are scored. Prints accuracy
and expected calibration error of the test nodes, and the seconds of `gread fit`.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

import gread
from gread.estimator.scores import score

GRAPHS = ("wisconsin", "amazon-computers", "coauthor-cs", "arxiv-year:0", "arxiv-subject:0")
DIRECTED = {"wisconsin": False, "arxiv-year": True, "arxiv-subject": True}
"""Graphs as CSV; the others have sparse features in a second file."""


def write(folder: Path, name: str, split: int) -> list[str]:
    """Write the files of a graph, and return the options of `gread fit`."""
    data = gread.load(name, **({"directed": True} if DIRECTED.get(name) else {}))
    nodes = pd.DataFrame({"id": np.arange(data.num_nodes), "class": data.y.numpy()})
    nodes["class"] = nodes["class"].astype("Int64").mask(data.test_mask[:, split].numpy())
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


def measure(name: str, split: int, more: list[str]) -> dict[str, float]:
    """Scores of one graph and split."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        options = write(folder, name, split)
        begin = time.monotonic()
        run("fit", *options, "--out", f"{folder}/model", *more)
        seconds = time.monotonic() - begin
        run("predict", f"{folder}/model", "--out", f"{folder}/predictions.csv")
        predictions = pd.read_csv(folder / "predictions.csv")
    data = gread.load(name)
    test = predictions["id"].to_numpy()
    assert set(test) == set(data.test_mask[:, split].nonzero().flatten().tolist())
    shares = predictions.filter(regex="^p_").to_numpy()
    y, chosen = data.y.numpy()[test], predictions["prediction"].to_numpy()
    found = score(y, shares, chosen, "accuracy")
    return {"accuracy": 100 * found.accuracy, "ECE": found.calibration_error, "seconds": seconds}


def main() -> None:
    """Print one line per graph and split, and means over splits."""
    given = sys.argv[1:]
    more = given[given.index("--") + 1 :] if "--" in given else []
    names = given[: given.index("--")] if "--" in given else given
    for one in names or GRAPHS:
        name, _, only = one.partition(":")
        splits = [int(only)] if only else range(10)
        found = []
        for split in splits:
            found.append(measure(name, split, more))
            print(name, split, {k: round(v, 3) for k, v in found[-1].items()}, flush=True)
        if len(found) > 1:
            means = pd.DataFrame(found).mean()
            print(name, "mean", {k: round(v, 3) for k, v in means.items()}, flush=True)


if __name__ == "__main__":
    main()
