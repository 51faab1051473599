"""What an epoch on a billion nodes would take: the model of docs/scaling.md and its tables.

    python studies/predict_scaling.py

Calibrated on what studies/measure_scaling.py found (memory, halos, bytes) and on products measured
on one H200; links between GPUs are assumptions, from data sheets.
"""

import math

NODES, EDGES, HIDDEN = 1e9, 1e10, 32
PRODUCTS = 6 * 4
"""BS with four Euler steps: two products a step; forth, back, and for the accuracies."""

# Measured on a mesh with four edges a node, of one and two million nodes, 32 and 64 channels.
STATES, A_NODE, AN_EDGE = 8.8, 60, 90
"""States of N x d floats held at the peak, and bytes besides for a node and for an edge."""
STRIP = 1.71
"""Halo of a strip of a square mesh, in roots of N: Cuthill and McKee cut it along diagonals."""

# Measured on one H200, bytes a second: rows that a product gathers, with 2.4 million nodes, 120
# million entries and 128 channels; and a copy.
GATHER, COPY = 4.2e12, 4.26e12
# Assumed: a share of 0.7 of NVLink (450 GB/s each way) and of InfiniBand (400 Gb/s a GPU), and a
# message every 5 microseconds.
NVLINK, INFINIBAND, MESSAGE = 0.7 * 450e9, 0.7 * 50e9, 5e-6
ROOM = 141e9


def mesh(gpus: float) -> tuple[float, int]:
    """Rows that a strip of a square mesh asks for, and of how many others."""
    return STRIP * math.sqrt(NODES), 2


def solid(gpus: float) -> tuple[float, int]:
    """Likewise of a cubic mesh, whose layers have N^(2/3) nodes."""
    return 2 * NODES ** (2 / 3), 2


def random(gpus: float) -> tuple[float, int]:
    """Likewise of a graph without any order: the different nodes that E / gpus edges name."""
    others = NODES * (1 - 1 / gpus)
    return others * (1 - math.exp(-EDGES / gpus / NODES)), int(gpus) - 1


def predict(halo: float, partners: int, gpus: int) -> dict[str, float]:
    """Seconds of an epoch, the share in which a GPU waits, and GB that it needs."""
    row = 4 * HIDDEN
    own = EDGES / gpus * row / GATHER + 3 * NODES / gpus * row / COPY
    pack = 3 * halo * row / COPY  # rows to send are put together, those that came are added
    wire = halo * row / (NVLINK if gpus <= 8 else INFINIBAND) + partners * MESSAGE
    waiting = max(0.0, wire - own)
    memory = (STATES * row + A_NODE) * NODES / gpus + AN_EDGE * EDGES / gpus + 2 * halo * row
    return {
        "seconds": PRODUCTS * (own + pack + waiting),
        "waiting": waiting / (own + pack + waiting),
        "GB": memory / 1e9,
        "sent": PRODUCTS * halo * row / 1e9,
    }


if __name__ == "__main__":
    print("| graph | GPUs | halo | of a shard | GB sent a GPU | s an epoch | waiting | GB a GPU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, graph in (("square mesh", mesh), ("cubic mesh", solid), ("no order", random)):
        for gpus in (8, 64, 512):
            halo, partners = graph(gpus)
            found = predict(halo, partners, gpus)
            fits = "" if found["GB"] * 1e9 < ROOM else ", too much"
            print(
                f"| {name} | {gpus} | {halo:.2g} | {halo / (NODES / gpus):.1%} "
                f"| {found['sent']:.3g} | {found['seconds']:.2g} | {found['waiting']:.0%} "
                f"| {found['GB']:.0f}{fits} |"
            )
