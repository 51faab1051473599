"""Predict the cost of an epoch on a billion nodes: the model of docs/scaling.md.

    python studies/predict_scaling.py

The model is calibrated with results of studies/measure_scaling.py (memory, halos, bytes) and with
products measured on one H200. Bandwidths between GPUs are assumptions from data sheets.
"""

import math

NODES, EDGES, HIDDEN = 1e9, 1e10, 32
PRODUCTS = 6 * 4
"""BS with four Euler steps: two products per step, in forward, backward and evaluation."""

# Measured on meshes of one and two million nodes with four neighbours, 32 and 64 channels.
STATES, A_NODE, AN_EDGE = 8.8, 60, 90
"""Peak memory: number of states of N x d floats, and further bytes per node and per edge."""
STRIP = 1.71
"""Halo of a strip of a square mesh in units of √N; Cuthill-McKee strips are diagonal."""

# Measured on one H200, in bytes per second: rows gathered by a product with 2.4 million nodes, 120
# million entries and 128 channels; and a copy.
GATHER, COPY = 4.2e12, 4.26e12
# Assumed: 70 % of NVLink (450 GB/s each way) and of InfiniBand (400 Gb/s per GPU), and 5 µs per
# message.
NVLINK, INFINIBAND, MESSAGE = 0.7 * 450e9, 0.7 * 50e9, 5e-6
ROOM = 141e9


def mesh(gpus: float) -> tuple[float, int]:
    """Halo rows of a strip of a square mesh, and the number of partners."""
    return STRIP * math.sqrt(NODES), 2


def solid(gpus: float) -> tuple[float, int]:
    """Halo rows and partners in a cubic mesh with layers of N^(2/3) nodes."""
    return 2 * NODES ** (2 / 3), 2


def random(gpus: float) -> tuple[float, int]:
    """Halo rows and partners in an unordered graph: distinct nodes of E / gpus edges."""
    others = NODES * (1 - 1 / gpus)
    return others * (1 - math.exp(-EDGES / gpus / NODES)), int(gpus) - 1


def predict(halo: float, partners: int, gpus: int) -> dict[str, float]:
    """Seconds per epoch, share of waiting, memory and sent data in GB per GPU."""
    row = 4 * HIDDEN
    own = EDGES / gpus * row / GATHER + 3 * NODES / gpus * row / COPY
    pack = 3 * halo * row / COPY  # pack sent rows, add received rows
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
