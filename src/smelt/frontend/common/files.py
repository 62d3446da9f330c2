"""Model files on disk, and what is wrong with their paths."""

from __future__ import annotations

import os
from pathlib import Path

from smelt.ir.errors import ImportFailure
from smelt.runtime.errors import closest


def file_bytes(given: str | os.PathLike[str], ending: str) -> bytes:
    """The content of a model file; ending: what names of such files end with."""
    shown, path = os.fspath(given), Path(given)
    if not shown:
        raise ImportFailure(f"the model's path is empty; give an {ending} file")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        near = closest(path.stem, [f.stem for f in path.parent.glob(f"*{ending}")])
        hint = f"; nearest: {', '.join(f'{n}{ending}' for n in near)}" if near else ""
        hint = "; download it first" if "://" in shown else hint
        raise ImportFailure(f"{shown}: no such file{hint}") from None
    except IsADirectoryError:
        cure = f"give the {ending} file in it"
        if (path / "saved_model.pb").exists():
            cure = f"python -m tf2onnx.convert --saved-model {shown} --output model.onnx"
        raise ImportFailure(f"{shown}: is a directory; {cure}") from None
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else e
        raise ImportFailure(f"{shown!r}: cannot be read: {reason}") from None
