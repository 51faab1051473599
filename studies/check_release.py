"""Check that the version is the same in the package, the citation and the changelog.

    python studies/check_release.py

Run it in the repository's root before pushing a tag; it exits with the differences.
"""

import re
import sys
from pathlib import Path

import gread

ROOT = Path(__file__).parents[1]


def differences(version: str) -> list[str]:
    """Files that do not contain ``version``."""
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    released = re.findall(
        r"^## (\d\S*) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M
    )
    found = {
        "CITATION.cff": citation and citation[1],
        "the latest release in CHANGELOG.md": released[0] if released else None,
    }
    return [f"{where} has {said}" for where, said in found.items() if said != version]


if __name__ == "__main__":
    if wrong := differences(gread.__version__):
        sys.exit(f"the package has {gread.__version__}, " + ", ".join(wrong))
    print(f"{gread.__version__} in the package, the citation and the changelog")
