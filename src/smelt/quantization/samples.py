"""What a model is calibrated with: arrays of the user's, checked before anything is computed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from smelt.ir.errors import CompileError
from smelt.runtime import TensorInfo

from .statistics import Array

Sample: TypeAlias = Mapping[str, Array]
"""An array for each input of a model."""

Data: TypeAlias = "str | os.PathLike[str] | Array | Mapping[str, Array] | Iterable[Any]"
"""A folder or file of samples; arrays of samples, by input; or samples one by one."""

FILES = (".npy", ".npz")
_RELATED = 0.05
"""A correlation of neighbours that noise stays below."""
_ENOUGH = 512
"""Fewer numbers do not tell whether neighbours are related."""


class Samples:
    """Samples of a model's inputs, read again each time that they are gone through."""

    def __init__(self, data: Data, inputs: Sequence[TensorInfo], most: int | None = None) -> None:
        """Look at what is given; raises CompileError where it is no data, or none.

        inputs  what the model takes
        most    the largest number of samples that is used
        """
        self.inputs, self.most = inputs, most
        self.where = _name_of(data)
        self.files: list[Path] = []
        self.given: list[Sample] = []
        if isinstance(data, str | os.PathLike):
            self._open(Path(data))
        elif isinstance(data, np.ndarray | Mapping):
            self.given = self._cut(data, self.where)
        else:
            self.given = [s for n, d in enumerate(data) for s in self._cut(d, f"sample {n}")]
        self.count = sum(1 for _ in self)
        if not self.count:
            raise CompileError(f"{self.where}: there are no samples in it; one is the least")

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Sample]:
        left = self.most if self.most is not None else -1
        for sample in self._all():
            if left == 0:
                return
            left -= 1
            yield sample

    def _all(self) -> Iterator[Sample]:
        yield from self.given
        for file in self.files:
            yield from self._cut(_read(file), str(file))

    def _open(self, path: Path) -> None:
        if not path.exists():
            raise CompileError(f"{path}: there is no such file or folder")
        if path.is_dir():
            self.files = sorted(p for p in path.iterdir() if p.suffix in FILES)
            others = sorted(p.name for p in path.iterdir() if p.suffix not in FILES)
            if not self.files:
                found = f"; it has {', '.join(others[:3])}" if others else ""
                raise CompileError(
                    f"{path}: there are no .npy or .npz files in it{found}; a sample is a file: "
                    "the array of the model's input, or an .npz with one for each input"
                )
        elif path.suffix in FILES:
            self.files = [path]
        else:
            raise CompileError(f"{path}: legal: a folder of .npy or .npz files, or one such file")

    def _cut(self, data: Any, where: str) -> list[Sample]:
        """The samples in one thing that is given: one, or many along the first dimension."""
        given = self._named(data, where)
        pieces = {i.name: _pieces(given[i.name], i, where) for i in self.inputs}
        counts = {n: len(p) for n, p in pieces.items()}
        if len(set(counts.values())) > 1:
            raise CompileError(
                f"{where}: the inputs have different numbers of samples: "
                + ", ".join([f"{n!r} {c}" for n, c in counts.items()])
            )
        together = zip(*pieces.values(), strict=True)
        return [dict(zip(pieces, arrays, strict=True)) for arrays in together]

    def _named(self, data: Any, where: str) -> dict[str, Array]:
        """An array by input."""
        names = [i.name for i in self.inputs]
        if isinstance(data, Mapping):
            given = {n: np.asarray(a) for n, a in data.items()}
        elif isinstance(data, tuple | list) and len(data) == len(names):
            given = dict(zip(names, map(np.asarray, data), strict=True))
        elif len(names) == 1 and not isinstance(data, tuple | list):
            given = {names[0]: np.asarray(data)}
        else:
            count = len(data) if isinstance(data, tuple | list) else 1
            raise CompileError(
                f"{where}: {count} arrays for the inputs {', '.join(names)}; give each by its name"
            )
        if missing := [n for n in names if n not in given]:
            raise CompileError(
                f"{where}: nothing for the input {missing[0]!r}; it has: "
                f"{', '.join(given) or 'nothing'}"
            )
        if extra := [n for n in given if n not in names]:
            raise CompileError(
                f"{where}: {extra[0]!r} is no input of the model; inputs: {', '.join(names)}"
            )
        return given


def _name_of(data: Data) -> str:
    return str(data) if isinstance(data, str | os.PathLike) else "the calibration data"


def _read(path: Path) -> Any:
    """The arrays of a file."""
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content:
            return {name: content[name] for name in content.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as e:
        raise CompileError(f"{path}: it cannot be read as arrays of numbers: {e}") from None


def _pieces(a: Array, i: TensorInfo, where: str) -> list[Array]:
    """One array as samples of an input."""
    what = f"{where}: the input {i.name!r}"
    if str(a.dtype) != i.dtype:
        raise CompileError(f"{what} is {a.dtype}; the model takes {i.dtype}")
    shape = i.shape
    if a.ndim == len(shape) + 1 and _fits(a.shape[1:], shape):
        pieces = list(a)
    elif a.ndim != len(shape) or not _fits(a.shape[1:], shape[1:]):
        raise CompileError(
            f"{what} has the shape {a.shape}; legal: {_text(shape)}, or many of them: "
            f"{_text(('N', *shape))}"
        )
    elif not shape:
        pieces = [a]
    else:
        size = shape[0] if isinstance(shape[0], int) else 1
        if size and a.shape[0] % size:
            raise CompileError(
                f"{what} has {a.shape[0]} rows; the model takes {size} at once: give a multiple"
            )
        pieces = [a[k : k + size] for k in range(0, a.shape[0], size)] if size else [a]
    for n, piece in enumerate(pieces):
        if piece.dtype.kind == "f" and not np.isfinite(piece).all():
            at = f" of sample {n}" if len(pieces) > 1 else ""
            raise CompileError(f"{what}{at} holds NaN or infinite numbers; ranges cannot be found")
    return [np.ascontiguousarray(p) for p in pieces]


def _fits(have: Sequence[int], want: Sequence[Any]) -> bool:
    return len(have) == len(want) and all(
        h == w or not isinstance(w, int) for h, w in zip(have, want, strict=True)
    )


def _text(shape: Sequence[Any]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


# -------------------------------------------------------------------------------------- noise


def noise_in(samples: Iterable[Sample]) -> list[str]:
    """The inputs whose numbers look like noise: neighbours of a signal are related, in an image, a
    spectrum or a recording alike; those of random numbers are not.

    Only what has at least two dimensions larger than one behind the first is looked at.
    """
    found: dict[str, list[float]] = {}
    for sample in samples:
        for name, a in sample.items():
            if a.dtype.kind == "f" and sum(n > 1 for n in a.shape[1:]) >= 2 and a.size >= _ENOUGH:
                found.setdefault(name, []).append(_relation(a))
    return [name for name, r in found.items() if np.mean(r) < _RELATED]


def _relation(a: Array) -> float:
    """The largest correlation of neighbours along any dimension behind the first."""
    most = 0.0
    for axis in range(1, a.ndim):
        if a.shape[axis] < 4:
            continue
        along = np.moveaxis(a, axis, -1).astype(np.float64)
        x, y = along[..., 1:].reshape(-1), along[..., :-1].reshape(-1)
        x, y = x - x.mean(), y - y.mean()
        norm = np.sqrt((x @ x) * (y @ y))
        most = max(most, abs(float(x @ y / norm)) if norm > 0 else 1.0)
    return most
