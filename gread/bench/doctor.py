"""Equipment of this machine, for bug reports and performance problems."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

import torch

from gread.base.versions import PACKAGES
from gread.kernels.backend import available, fast


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Attributes:
        subject: Name of the checked item.
        found: Version or description of the item; empty if it is missing.
        advice: Cost of its absence and how to fix it; empty if there is no problem.
    """

    subject: str
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Check Python, packages, devices, kernels and the compiler.

    Example:
        >>> from gread.bench import examine
        >>> examine()[0].subject
        'python'
    """
    system = f"{platform.system()} {platform.machine()}"
    return [
        Finding("python", f"{platform.python_version()} on {system}"),
        *map(_package, ("gread", *PACKAGES, "matplotlib", "typer", "rich")),
        Finding("cpu", f"{os.cpu_count()} cores, torch uses {torch.get_num_threads()} threads"),
        *_accelerators(),
        *_kernels(),
        _compiler(),
    ]


def _package(name: str) -> Finding:
    try:
        return Finding(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, "", f"not installed as a package: pip install {name}")


def _accelerators() -> Iterator[Finding]:
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            memory = properties.total_memory / 2**30
            yield Finding(f"cuda:{index}", f"{properties.name}, {memory:.0f} GiB")
    elif torch.backends.mps.is_available():
        yield Finding("mps", "available")
    else:
        built = f"torch built for CUDA: {torch.version.cuda or 'none'}"
        yield Finding("gpu", "", f"no device found ({built}); the CPU is used")


def _kernels() -> Iterator[Finding]:
    """Check the fast kernels; if there are none, give the reason and the cost."""
    advice = {
        "cpu": "an epoch on Cora takes four to five times as long: install a C compiler (cc)",
        "cuda": "training is slower: pip install triton",
    }
    if not fast():
        yield Finding("kernels", "plain PyTorch", "GREAD_PLAIN is set: all fast paths are off")
        return
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        found = available(device)
        subject = f"kernels for {device}"
        if isinstance(found, Exception):
            yield Finding(subject, "", f"{found}; plain PyTorch is used, and {advice[device]}")
        else:
            yield Finding(subject, {"cpu": "compiled C", "cuda": "Triton"}[device])


def _compiler() -> Finding:
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), "")
    advice = "" if compiler else "torch.compile needs a C++ compiler on the CPU: install g++"
    return Finding("c++ compiler", compiler, advice)
