"""``python -m studies.soak [NAME ...] [--times N]``: run scripts, write docs/reliability.md."""

import argparse
import platform
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from time import perf_counter

import torch

from gread.base.versions import versions
from studies.soak.rows import PAGE, SCRIPTS, page, store


def main() -> None:
    """Run the named scripts, or all; rows are stored after each."""
    load()
    parser = argparse.ArgumentParser(prog="python -m studies.soak", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCRIPTS))
    parser.add_argument(
        "--times", type=int, help="number of attempts; results are printed but not stored"
    )
    asked = parser.parse_args()
    for name in asked.names or SCRIPTS:
        begin, rows = perf_counter(), []
        for row in SCRIPTS[name](asked.times):
            rows.append(row)
            print(f"{name}: {row.tried} ({row.times:,} times): {row.found}", flush=True)
            if asked.times is None:
                store(name, rows, machine(), perf_counter() - begin)
    PAGE.write_text(page(), encoding="utf-8")


def load() -> None:
    """Import the modules of this package, which registers their scripts."""
    for module in iter_modules([str(Path(__file__).parent)]):
        if module.name != "__main__":
            import_module(f"studies.soak.{module.name}")


def machine() -> str:
    """Description of the machine."""
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    made_with = versions()
    return (
        f"{platform.system()} {platform.machine()}{gpu}, "
        f"Python {made_with['python']}, torch {made_with['torch']}"
    )


if __name__ == "__main__":
    main()
