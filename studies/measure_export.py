"""Time predictions of exported files and of gread on 100,000 nodes (docs/own-graph.md).

    python studies/measure_export.py [NODES]

Run it in the repository's root, with OMP_NUM_THREADS=1 for one thread.
"""

import sys
import tempfile
import time
from pathlib import Path

import torch

import gread

MODELS = {
    "GREAD-BS, original adjacency, Euler": (
        "gread-bs",
        {"adjacency": "original", "solver": "euler", "time": 2.0},
    ),
    "GREAD-BS, soft adjacency, RK4": (
        "gread-bs",
        {"adjacency": "soft", "solver": "rk4", "time": 2.0},
    ),
    "GREAD-X": ("gread-x", {}),
    "tuned GCN": ("tuned-gcn", {}),
}


def seconds(function) -> tuple[float, object]:
    began = time.perf_counter()
    found = function()
    return time.perf_counter() - began, found


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    about = {"homophily": 0.5, "degree": 10, "num_features": 64, "num_splits": 1}
    data, small = (gread.csbm(size, 5, **about) for size in (nodes, 2000))
    folder = Path(tempfile.mkdtemp())
    print(f"{nodes:,} nodes, {data.num_edges:,} edges, {torch.get_num_threads()} threads")
    print("| model | gread | `.pt2` | ONNX | largest difference |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for title, (name, settings) in MODELS.items():
        classifier = gread.GraphClassifier(name, settings={"epochs": 3} | settings).fit(small)
        own, expected = seconds(lambda of=classifier: of.predict_proba(data))
        x = torch.from_numpy(classifier.preprocessing_.transform(classifier.read(data).table()))
        classifier.export(folder / "model.pt2")
        program = torch.export.load(folder / "model.pt2").module()
        pt2, found = seconds(lambda of=program, x=x: of(x, data.edge_index))
        onnx, also = seconds_of_onnx(classifier, folder / "model.onnx", x, data.edge_index)
        apart = max(abs(one - expected).max() for one in (found.numpy(), also))
        print(f"| {title} | {own:.1f} | {pt2:.1f} | {onnx:.1f} | {apart:.1g} |", flush=True)


def seconds_of_onnx(classifier, file, x, edge_index) -> tuple[float, object]:
    import onnxruntime

    classifier.export(file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(file, options)
    given = {"x": x.numpy(), "edge_index": edge_index.numpy()}
    return seconds(lambda: session.run(None, given)[0])


if __name__ == "__main__":
    main()
