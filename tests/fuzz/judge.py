"""A case run by smelt and compared with the oracle."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import smelt
from smelt.ir.errors import InternalError, Unsupported
from smelt.ir.options import Options
from smelt.runtime.errors import SmeltError

from .case import Array, Case
from .oracle import NoOracle, expected

__all__ = ["FAILURES", "Verdict", "judge"]

FAILURES = ("wrong", "error", "crash", "hang")
"""Kinds of verdicts that are smelt's fault; the others: ok, unsupported, no oracle."""

SLACK = 3.0
"""How many times the bound of the rounding error two results may differ: both are off."""


@dataclass
class Verdict:
    """What came of a case; `label` is equal for failures that look the same."""

    kind: str
    message: str = ""
    label: str = ""
    oracle: str = ""


def judge(case: Case, tell: Callable[[str], None] = lambda stage: None) -> Verdict:
    """Run the case; `tell` hears what is being done, so that a crash can be laid at a door."""
    tell("oracle")
    try:
        oracle, runs = expected(case)
    except NoOracle as e:
        return Verdict("no oracle", str(e))
    accepted = [(feed, run) for feed, run in zip(case.feeds, runs, strict=True) if run is not None]
    case, wanted = replace(case, feeds=[f for f, _ in accepted]), [run for _, run in accepted]
    tell("smelt")
    try:
        found = by_smelt(case)
    except Unsupported as e:
        return Verdict("unsupported", str(e), _label(str(e)), oracle)
    except Exception as e:
        where = "" if isinstance(e, SmeltError) else _place(e)
        text = f"{type(e).__name__}: {e}{where}"
        internal = not isinstance(e, SmeltError) or isinstance(e, InternalError)
        return Verdict("error", text, f"{'' if internal else 'refused: '}{_label(text)}", oracle)
    tell("done")
    message = compare(case, found, wanted)
    if message:
        return Verdict("wrong", message, "wrong " + ",".join(sorted(ops_of(case))), oracle)
    return Verdict("ok", oracle=oracle)


def ops_of(case: Case) -> set[str]:
    """The operators at the top of a graph."""
    return {n.op for n in case.graph.nodes}


def by_smelt(case: Case) -> list[list[Array]]:
    """The results of each run of one executable."""
    threads, level = case.options["threads"], case.options["opt_level"]
    options = Options(opt_level=level, threads=threads, cache_dir="", workers=0)
    os.environ["SMELT_CHECK"] = "1" if case.options.get("check") else "0"
    executable = smelt.compile(case.model(), options=options)
    runs = []
    for feed in case.feeds:
        results = executable(*[feed[n] for n in case.graph.inputs])
        many = results if isinstance(results, list | tuple) else [results]
        runs.append([np.asarray(r.numpy() if hasattr(r, "numpy") else r) for r in many])
    return runs


def compare(case: Case, found: list[list[Array]], wanted: list[list[Array]]) -> str:
    """What differs, or ""."""
    for k, (run, want) in enumerate(zip(found, wanted, strict=True)):
        if len(run) != len(want):
            return f"run {k}: {len(run)} results, not {len(want)}"
        for name, a, b in zip(case.graph.results, run, want, strict=True):
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"run {k}: {name} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
            message = differs(a, b, case.errors.get(name, 0.0))
            if message:
                return f"run {k}: {name} {a.dtype}{a.shape}: {message}"
    return ""


def differs(a: Array, b: Array, err: float) -> str:
    """How two arrays differ by more than rounding explains, or ""."""
    if a.dtype.kind in "biu":
        bad = a != b
    else:
        wide, other = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(wide - other) <= SLACK * err
        bad = ~(near | (wide == other) | (np.isnan(wide) & np.isnan(other)))
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return (
        f"{int(bad.sum())} of {bad.size} elements differ, at {at}: {a[at]!s}, not {b[at]!s} "
        f"(rounding explains {SLACK * err:.3g})"
    )


def _place(e: Exception) -> str:
    """The innermost line of smelt's source."""
    frames = [
        f for f in traceback.extract_tb(e.__traceback__) if f"{os.sep}smelt{os.sep}" in f.filename
    ]
    if not frames:
        return ""
    last = frames[-1]
    return f"\n  at {last.filename.rpartition('smelt' + os.sep)[2]}:{last.lineno} {last.name}"


def _label(text: str) -> str:
    """The text without names and numbers."""
    text = re.sub(
        r"'[^']*'|\[[^]]*\]|\b[nmk]\b|\b[cvxk]?\d[\w.]*\b|k[0-9a-f]{20,}|\([^)]*\)", "#", text
    )
    return re.sub(r"\s+", " ", text)[:160]
