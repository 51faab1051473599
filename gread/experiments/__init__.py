"""The questions that the paper asks, one file each."""

from gread.experiments import accuracy, settings  # noqa: F401  # importing enters artefacts
from gread.experiments.artefact import ARTEFACTS as ARTEFACTS
from gread.experiments.artefact import Artefact as Artefact
