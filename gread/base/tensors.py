"""Atomic writes of tensors."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from gread.base.files import failure, whole_file


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file atomically, with mode 0644."""
    content = {name: tensor.contiguous() for name, tensor in tensors.items()}
    with whole_file(path) as part:
        try:
            save_file(content, part, metadata=None if metadata is None else dict(metadata))
        except SafetensorError as error:
            code = re.search(r"os error (\d+)", str(error))  # the message has the error code
            raise failure(path, int(code[1]) if code else errno.EIO) from error
        part.chmod(0o644)  # safetensors restricts its files to their owner
