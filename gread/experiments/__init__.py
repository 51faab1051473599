"""The questions that the paper asks, one file each."""

from gread.experiments import accuracy  # noqa: F401  # importing a file enters its artefacts
from gread.experiments.artefact import ARTEFACTS as ARTEFACTS
from gread.experiments.artefact import Artefact as Artefact
