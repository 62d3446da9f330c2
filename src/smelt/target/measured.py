"""What was measured of machines: a JSON file for each CPU, in smelt's cache folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.ir.errors import TargetError
from smelt.ir.folders import cache_folder

_CURE = "run `smelt targets --measure`"


def measured_file(cpu: str) -> Path:
    """Where the figures of a CPU are kept."""
    folder = cache_folder()
    if folder is None:
        raise TargetError(
            "what is measured of machines is kept in the cache folder, and there is none; "
            "legal: SMELT_CACHE=1, and a folder's name in SMELT_CACHE_DIR"
        )
    return folder / "machines" / f"{cpu}.json"


def read_measured(cpu: str) -> tuple[Path, Mapping[str, Any]]:
    """The file for a CPU, and what it says."""
    file = measured_file(cpu)
    try:
        data = json.loads(file.read_bytes())
    except FileNotFoundError:
        others = ", ".join(sorted([f.stem for f in file.parent.glob("*.json")])) or "no CPU"
        raise TargetError(
            f"target option 'measured': nothing was measured of {cpu!r}; {file.parent} has figures "
            f"of {others}; on a {cpu}, {_CURE}"
        ) from None
    except ValueError:
        raise unreadable(file) from None
    if not isinstance(data, dict):
        raise unreadable(file)
    return file, data


def unreadable(file: Path) -> TargetError:
    """The error of a file that holds no machine."""
    return TargetError(f"target option 'measured': {file} holds no machine; {_CURE} again")
