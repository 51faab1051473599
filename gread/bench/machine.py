"""Description of the measuring machine, without names of hosts and folders."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import date

import torch

from gread.base.versions import versions


def machine(device: str) -> dict[str, str]:
    """Date, versions and properties of this machine that affect measurements."""
    found = {
        "date": date.today().isoformat(),
        "cpu": f"{_cpu()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "torch": f"{torch.__version__}, {torch.get_num_threads()} threads",
        "gread": versions()["gread"],
        "python": platform.python_version(),
    }
    if torch.device(device).type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        found["gpu"] = f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
    return found


def _cpu() -> str:
    """Model of the CPU; on ARM only lscpu gives it."""
    if shutil.which("lscpu"):
        environment = {**os.environ, "LC_ALL": "C"}
        found = subprocess.run(["lscpu"], capture_output=True, text=True, env=environment)
        for line in found.stdout.splitlines():
            subject, _, value = line.partition(":")
            if subject == "Model name":
                return value.strip()
    return platform.processor() or platform.machine()
