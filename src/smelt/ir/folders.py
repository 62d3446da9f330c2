"""The folder where smelt keeps what may be made again."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import CompileError


def cache_folder() -> Path | None:
    """The folder that the environment asks for; none where the cache is off or has no home."""
    if not cache_is_on():
        return None
    if named := os.environ.get("SMELT_CACHE_DIR"):
        return Path(named).absolute()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            return None
    return base / "smelt"


def cache_is_on() -> bool:
    """Whether the environment lets anything be kept."""
    text = os.environ.get("SMELT_CACHE", "1")
    if text not in ("", "0", "1"):
        raise CompileError(f"environment variable SMELT_CACHE={text!r} is neither 0 nor 1")
    return text != "0"
