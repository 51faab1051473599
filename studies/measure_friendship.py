"""Compare `gread fit` with LINKX on a generated friendship graph (docs/own-graph.md).

    python studies/measure_friendship.py [--nodes 3000] [--seeds 2] [--models auto linkx ...]

Run it in the repository's root. It writes two CSV files as a user would, with categories as
integers and as text, runs the command, and prints the accuracy on nodes whose label was not in the
files.

Students have a year, a residence, a subject, and a gender to predict. Friendships are more
likely within a year, a residence and a subject. Some students are friends mostly with their own
gender, others with the other gender (monophily: Altenburger and Ugander, 2018). The mean over
neighbours is therefore hardly informative, but the identity of the neighbours is. Some clubs admit
one gender only.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

NODES, DEGREE = 3000, 40
YEARS, RESIDENCES, SUBJECTS, CLUBS = 5, 20, 30, 40
TEST = 0.2


def students(nodes: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Generate nodes and edges; the column ``gender`` is complete."""
    random = np.random.default_rng(seed)
    gender = random.integers(2, size=nodes)
    year = random.integers(YEARS, size=nodes)
    residence = random.integers(RESIDENCES, size=nodes)
    residence[year > 2] = random.integers(RESIDENCES // 4, size=nodes)[year > 2]
    # Half of the subjects are chosen more often by one gender.
    leaning = np.repeat([0.35, 0.65, 0.5, 0.5], -(-SUBJECTS // 4))[:SUBJECTS]
    shares = np.stack([1 - leaning, leaning])
    subject = np.array([random.choice(SUBJECTS, p=shares[g] / shares[g].sum()) for g in gender])
    club = random.integers(3 * CLUBS, size=nodes)  # a third of the students are in a club
    club[(club < CLUBS) & (club % 4 == 0) & (gender == 0)] += 1  # clubs that admit only gender 1
    club[(club < CLUBS) & (club % 4 == 2) & (gender == 1)] += 1
    taste = random.beta(6.0, 6.0, size=nodes)  # preferred share of gender 1 among friends
    popular = random.lognormal(0.0, 0.6, size=nodes)
    pairs = []
    for node in range(nodes):
        likes = np.where(gender == 1, taste[node], 1 - taste[node])
        liked = np.where(gender[node] == 1, taste, 1 - taste)
        weight = popular * likes * liked
        weight *= 1 + 4.0 * (year == year[node]) + 6.0 * (residence == residence[node])
        weight *= 1 + 2.0 * (subject == subject[node])
        weight *= 1 + 6.0 * ((club == club[node]) & (club < CLUBS))
        weight[node] = 0.0
        count = random.poisson(DEGREE / 2 * popular[node] / np.exp(0.18))
        friends = random.choice(
            nodes, size=min(count, nodes // 2), replace=False, p=weight / weight.sum()
        )
        pairs.append(np.stack([np.full(len(friends), node), friends]))
    ends = np.unique(np.sort(np.concatenate(pairs, axis=1), axis=0), axis=1)
    table = {"id": np.arange(nodes), "gender": gender, "year": 2005 + year}
    table |= {"residence": residence, "subject": subject}
    return pd.DataFrame(table), pd.DataFrame(ends.T, columns=["source", "target"])


def as_text(nodes: pd.DataFrame) -> pd.DataFrame:
    """The same table with names instead of codes."""
    found = nodes.copy()
    for name in ("residence", "subject"):
        found[name] = [f"{name} {code}" for code in nodes[name]]
    found["gender"] = np.array(["f", "m"])[nodes["gender"]]
    return found


FORMS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "integers": lambda nodes: nodes,
    "text": as_text,
}
"""Representations of categories in a file."""


def measure(
    nodes: pd.DataFrame, edges: pd.DataFrame, seed: int, *options: str
) -> tuple[float, float]:
    """Accuracy on a fifth of the nodes, and the seconds of the command."""
    hidden = np.random.default_rng(seed).random(len(nodes)) < TEST
    given = nodes.assign(gender=nodes["gender"].astype(object).mask(hidden))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        given.to_csv(folder / "nodes.csv", index=False)
        edges.to_csv(folder / "edges.csv", index=False)
        begin = time.monotonic()
        files = ("--nodes", f"{folder}/nodes.csv", "--edges", f"{folder}/edges.csv")
        _run("fit", *files, "--label", "gender", "--out", f"{folder}/model", *options)
        seconds = time.monotonic() - begin
        _run("predict", f"{folder}/model", "--out", f"{folder}/predictions.csv")
        found = pd.read_csv(folder / "predictions.csv")
    right = found["prediction"].to_numpy() == nodes["gender"].to_numpy()[found["id"]]
    return float(right.mean()), seconds


def _run(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "gread", *words], check=True, stdout=subprocess.PIPE)


def main() -> None:
    """Print one line for each graph, form and model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--models", nargs="*", default=["auto", "linkx"])
    given = parser.parse_args()
    for seed in range(given.seeds):
        nodes, edges = students(given.nodes, seed)
        for form, written in FORMS.items():
            for model in given.models:
                accuracy, seconds = measure(written(nodes), edges, seed, "--model", model)
                print(
                    f"seed {seed} {form:8} {model:8} {100 * accuracy:.2f} {seconds:.0f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
