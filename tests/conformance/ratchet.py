"""What is known to pass, to fail, and to need Python: lists, which may only get better."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from .run import Result

__all__ = ["UPDATE", "Ratchet", "complaints", "read", "updated", "write"]

FOLDER = Path(__file__).parent
OTHERS = ("failing", "python")
"""The lists with reasons."""
HEAD = "# onnx "
UPDATE = "python -m tests.conformance --update"
REASON_WIDTH = 300
LEGAL = re.compile(r" (?:supported|known|legal|inputs): ")


@dataclass(frozen=True)
class Ratchet:
    """The cases of one version of onnx: those that pass, and the others with their reasons.

    python  of those that pass: what Python runs of them
    """

    version: str
    passing: frozenset[str]
    failing: Mapping[str, str]
    python: Mapping[str, str]

    @property
    def known(self) -> frozenset[str]:
        """Every case that was there when the files were written."""
        return self.passing | self.failing.keys()


def read(folder: Path = FOLDER) -> Ratchet:
    """The three files."""
    version, passing = lines(folder / "passing.txt")
    pairs = [dict(x.split("  ", 1) for x in lines(folder / f"{name}.txt")[1]) for name in OTHERS]
    return Ratchet(version, frozenset(passing), *pairs)


def lines(path: Path) -> tuple[str, list[str]]:
    """The version of onnx at the head of a file, and its other lines."""
    head, *rest = path.read_text(encoding="utf-8").splitlines()
    return head.removeprefix(HEAD), rest


def write(ratchet: Ratchet, folder: Path = FOLDER) -> None:
    """The files anew: a name a line, sorted; two spaces and a reason, but for those that pass."""
    found = {"passing": sorted(ratchet.passing)}
    for name, reasons in zip(OTHERS, (ratchet.failing, ratchet.python), strict=True):
        found[name] = sorted([f"{case}  {reason}" for case, reason in reasons.items()])
    for file, listed in found.items():
        text = "\n".join([HEAD + ratchet.version, *listed])
        (folder / f"{file}.txt").write_text(text + "\n", encoding="utf-8")


def updated(old: Ratchet | None, results: Iterable[Result]) -> Ratchet:
    """The ratchet after a run; cases that were not run stay as they were."""
    passing, failing, python = set[str](), dict[str, str](), dict[str, str]()
    if old is not None and old.version == onnx.__version__:
        passing, failing, python = set(old.passing), dict(old.failing), dict(old.python)
    for r in results:
        passing.discard(r.name)
        failing.pop(r.name, None)
        python.pop(r.name, None)
        if r.error is None:
            passing.add(r.name)
        else:
            failing[r.name] = shortened(r.error)
        if r.python:
            python[r.name] = ", ".join(r.python)
    return Ratchet(onnx.__version__, frozenset(passing), failing, python)


def shortened(error: str) -> str:
    """An error in one line, without what would be supported instead."""
    text = " ".join(error.replace(" | ", " ").split())
    return LEGAL.split(text)[0][:REASON_WIDTH].strip()


def complaints(ratchet: Ratchet, results: Sequence[Result]) -> list[str]:
    """What a run showed that the ratchet does not say."""
    lost = [f"{r.name} fails: {r.error}" for r in results if r.error and r.name in ratchet.passing]
    won = [r.name for r in results if not r.error and r.name not in ratchet.passing]
    lost += [f"{r.name} needs Python: {', '.join(r.python)}; it did not before"
             for r in results if r.python and r.name not in ratchet.python]  # fmt: skip
    freed = [r.name for r in results if not r.python and r.name in ratchet.python]
    if freed:
        lost.append(f"need no Python now ({UPDATE} strikes them out): {', '.join(freed)}")
    if won:
        lost.append(
            f"pass now, and are not in passing.txt ({UPDATE} enters them): {', '.join(won)}"
        )
    return lost
