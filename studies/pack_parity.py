"""Pack the numbers of the authors' published code that tests/test_parity.py compares with.

    GREAD_PARITY=FOLDER python studies/pack_parity.py

Run it in the repository's root. States are stored as a few sums over all entries, which detect any
difference and take 100 KB instead of 2.7 MB.
"""

import os
from pathlib import Path

import numpy as np

from tests.test_parity import PACKED, sums_of


def pack(folder: Path) -> None:
    """Write `PACKED` from ``inputs.npz`` and ``cases.npz``."""
    inputs, cases = (dict(np.load(folder / name)) for name in ("inputs.npz", "cases.npz"))
    whole = {name: value for name, value in cases.items() if name == "H0" or name[:2] == "A."}
    states = {name: value for name, value in cases.items() if name.endswith((".f", ".HT"))}
    named = {
        "cases": np.array(list(states)),
        "sums": np.stack([sums_of(v) for v in states.values()]),
    }
    np.savez_compressed(PACKED, **inputs, **whole, **named)


if __name__ == "__main__":
    pack(Path(os.environ["GREAD_PARITY"]))
