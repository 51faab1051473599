"""Models as folders: weights in safetensors, settings in JSON, a model card. Nothing is pickled.

Saving and loading use the mixin of huggingface_hub (extra ``gread[hub]``), so a folder on disk and
a repository on the Hub have the same content.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from gread.base.errors import InputError
from gread.base.tensors import write_tensors
from gread.base.versions import versions

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
CARD = "README.md"
EXTRA = "pip install 'gread[hub]'"
DOWNLOAD = ("revision", "cache_dir", "force_download", "local_files_only", "token")
HEAD = """---
library_name: gread
tags:
- graph-machine-learning
- node-classification
- gread
---
"""

try:
    from huggingface_hub import ModelCard, ModelHubMixin, hf_hub_download
except ImportError:

    class ModelHubMixin:  # type: ignore[no-redef]
        """Replacement of the mixin without huggingface_hub; its methods raise an error."""

        def __new__(cls, *arguments: Any, **options: Any) -> Any:
            """Ignore the arguments of the mixin."""
            return super().__new__(cls)

        def save_pretrained(self, *arguments: Any, **options: Any) -> NoReturn:
            """Raise an error that names the missing package."""
            raise InputError(f"save_pretrained needs huggingface_hub: {EXTRA}")

        @classmethod
        def from_pretrained(cls, *arguments: Any, **options: Any) -> NoReturn:
            """Raise an error that names the missing package."""
            raise InputError(f"from_pretrained needs huggingface_hub: {EXTRA}")


class Pretrained(ModelHubMixin):
    """Mixin with ``save_pretrained`` and ``from_pretrained``.

    The arguments of its ``__init__`` are the config, so all of them must be plain values.
    """

    _not_plain: list[str]

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        """Record arguments that a config cannot contain."""
        model = super().__new__(cls, *arguments, **options)
        names = list(inspect.signature(cls.__init__).parameters)[1:]
        given = dict(zip(names, arguments, strict=False)) | options
        plain = (bool, int, float, str, type(None))
        model._not_plain = [name for name, value in given.items() if not isinstance(value, plain)]
        return model

    def _save_pretrained(self, save_directory: Path) -> None:
        for name in self._not_plain:
            raise InputError(
                f"{name} must be a plain value for the model to be saved: register it, and give "
                "its name"
            )
        save_weights(self, save_directory)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **settings: Any) -> Any:
        download = {name: settings.pop(name) for name in DOWNLOAD}
        file = Path(model_id, WEIGHTS)
        if not Path(model_id).is_dir():
            file = Path(hf_hub_download(model_id, WEIGHTS, **download))
        return load_module(lambda: cls(**settings), file)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Any:
        """Load a model from a folder or a repository of the Hugging Face Hub."""
        place = pretrained_model_name_or_path
        try:
            return super().from_pretrained(place, **options)
        except (InputError, OSError):
            raise
        except Exception as error:  # any value of a config may be invalid
            raise InputError(f"{place} must hold a {CONFIG} of {cls.__name__}: {error}") from error

    def generate_model_card(
        self, *, fingerprint: str = "", metrics: Mapping[str, float] | None = None, **others: Any
    ) -> Any:
        """Build the model card, with information about the training.

        ``save_pretrained(folder, model_card_kwargs={"fingerprint": ..., "metrics": {...}})`` passes
        these arguments.
        """
        title = type(self).__name__
        return ModelCard(model_card(title, fingerprint=fingerprint, metrics=metrics or {}))


def save_weights(module: Any, folder: Path, name: str = WEIGHTS) -> None:
    """Write the parameters of a module."""
    write_tensors(folder / name, module.state_dict(), {"format": "pt"})


def load_module(build: Callable[[], nn.Module], file: Path) -> nn.Module:
    """Build a module with the weights in a file, which must match its parameters.

    It is first built without allocating weights, so untrusted settings cannot request more memory
    than the file has.
    """
    if not file.is_file():
        raise InputError(f"{file} must hold the weights of the model, got no such file")
    try:
        with safe_open(file, framework="pt") as weights:
            found = {name: weights.get_slice(name).get_shape() for name in weights.keys()}  # noqa: SIM118
        expected = _shapes(build, most=100 + 10 * len(found))
        if found != expected:
            raise ValueError(_difference(found, expected))
        module = build()
        module.load_state_dict(load_file(file))
    except InputError:  # raised for invalid settings
        raise
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{file} must hold the weights of the model: {reason}") from error
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise InputError(f"{file} must hold finite weights, got NaN or infinity in {name}")
    return module.eval()


def _shapes(build: Callable[[], nn.Module], most: int) -> dict[str, list[int]]:
    """Shapes of the weights, without allocating them; at most ``most`` modules and parameters."""
    parts = 0

    def count(*_: Any) -> None:
        nonlocal parts
        parts += 1
        if parts > most:
            raise ValueError(f"the settings require more than {most} modules and parameters")

    with (
        register_module_module_registration_hook(count),
        register_module_parameter_registration_hook(count),
        torch.device("meta"),
    ):
        return {name: list(tensor.shape) for name, tensor in build().state_dict().items()}


def _difference(found: Mapping[str, list[int]], expected: Mapping[str, list[int]]) -> str:
    """Description of the first mismatching weight."""
    for name in [*expected, *found]:
        if found.get(name) != expected.get(name):
            wanted, got = (
                f"of shape {of[name]}" if name in of else "none" for of in (expected, found)
            )
            return f"{name} must be {wanted}, got {got}"
    return ""


def model_card(
    title: str,
    *,
    about: str = "",
    fingerprint: str = "",
    metrics: Mapping[str, float],
    usage: str = "",
    notes: str = "",
) -> str:
    """Text of a model card, with the metadata of the Hub.

    Args:
        title: Title of the card.
        about: Description of the model; by default that of GREAD.
        fingerprint: Fingerprint of the training data.
        metrics: Metrics on test nodes, by name.
        usage: Usage of the model, as Markdown.
        notes: Caveats, as Markdown.
    """
    about = about or "A graph neural reaction-diffusion network (GREAD, Choi et al., ICML 2023)."
    lines = [HEAD, f"# {title}", "", about, ""]
    if metrics:
        lines += ["| on test nodes | |", "| --- | ---: |"]
        lines += [f"| {name} | {value:.4f} |" for name, value in metrics.items()]
        lines.append("")
    for heading, text in (("Use", usage), ("Limitations", notes)):
        if text:
            lines += [f"## {heading}", "", text, ""]
    lines += ["## Versions", ""]
    if fingerprint:
        lines.append(f"- data with the fingerprint `{fingerprint}`")
    lines += [f"- {name} {version}" for name, version in versions().items()]
    return "\n".join(lines) + "\n"
