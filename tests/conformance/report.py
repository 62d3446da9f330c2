"""How much of the suite passes, as tables; `docs/conformance.md`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from .ratchet import UPDATE, Ratchet
from .suite import KINDS, OWN

__all__ = ["PAGE", "counts", "grouped", "page"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"

ALL = "all"

WHAT = {
    "node": "single operators",
    "simple": "small models, sequences",
    "pytorch-converted": "layers exported by PyTorch",
    "pytorch-operator": "operators exported by PyTorch",
    "real": "image networks",
    ALL: "of the suite",
    "opset": "older versions of operators, against onnxruntime",
    "converted": "models moved to other operator sets by onnx",
}

EXPLAINED = (
    (r"bernoulli|training_dropout", "random results: the suite wants those of numpy's generator"),
    (r"dft_inverse", "where the result is 0, the suite wants the rounding errors of numpy's FFT"),
    (r"opset/DFT", "where the result is 0, onnxruntime gives rounding errors above the tolerance"),
)
"""Reasons that an error does not tell, by pattern of names."""

INTRODUCTION = f"""# ONNX conformance

How much of the backend test suite of the `onnx` package (version {{version}}) smelt compiles to
machine code and runs with the results that the suite wants, within its tolerances, with equal
element types and shapes. Python runs a part of {{python}} of them; all others are native code.

```sh
python -m tests.conformance                 # all of it, with a summary
python -m tests.conformance node/conv       # the cases whose names match
python -m tests.conformance --report        # why the rest fails
```

`tests/conformance/passing.txt` lists what passes, `python.txt` what needs Python, and for what. A
test fails if a case fails that passed, needs Python and did not, or passes and is not listed;
`{UPDATE}` rewrites the lists and this page.
"""


def counts(ratchet: Ratchet) -> dict[str, tuple[int, int]]:
    """Cases that pass, and all, by kind, kinds without cases left out; ALL is the suite's own."""
    passing = Counter(kind(name) for name in ratchet.passing)
    known = Counter(kind(name) for name in ratchet.known)
    found = {k: (passing[k], known[k]) for k in KINDS if known[k]}
    found[ALL] = (sum(p for p, _ in found.values()), sum(n for _, n in found.values()))
    return found | {k: (passing[k], known[k]) for k in OWN if known[k]}


def kind(name: str) -> str:
    return name.split("/")[0]


def grouped(failing: Mapping[str, str]) -> dict[str, list[str]]:
    """Names of cases by reason, the commonest first. Names and numbers do not make a reason."""
    found: dict[str, list[str]] = {}
    for name, error in sorted(failing.items()):
        known = [why for pattern, why in EXPLAINED if re.search(pattern, name)]
        why = known[0] if known and "elements differ" in error else reason(error)
        found.setdefault(why, []).append(name)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def reason(error: str) -> str:
    """An error without what belongs to one model: its name, names of nodes and values, numbers."""
    text = re.sub(r"(^\w+): [^ ']\S*: ", r"\1: ", error)
    text = re.sub(r"^\w+: node '[^']*' \([^)]*\): ", "", text)
    text = re.sub(r"'[^']*'", "…", text)
    text = re.sub(r"; at \(.*|, wanted .*", "", text)
    text = re.sub(r"\bk[0-9a-f]{24}\b", "…", text)
    text = re.sub(r"(?<![\w-])-?\d+(\.\d+)?(e-?\d+)?(?!\w)", "N", text)
    text = re.sub(r": N nodes? \([^)]*\)", "", text)
    text = re.sub(r"^Unsupported: (N operators? not supported )?", "", text)
    return text.replace("|", "/").strip()[:120]


def page(ratchet: Ratchet) -> str:
    """The text of docs/conformance.md."""
    rows = [(k, WHAT[k], *c) for k, c in counts(ratchet).items()]
    text = [INTRODUCTION.format(version=ratchet.version, python=len(ratchet.python))]
    text += ["| kind | what | pass | of | per cent |", "|---|---|---|---|---|"]
    text += [f"| {k} | {w} | {p:,} | {n:,} | {100 * p / n:.1f} |" for k, w, p, n in rows]
    if ratchet.python:
        text += ["", "## What needs Python", "", "| cases | part | such as |", "|---|---|---|"]
        parts: dict[str, list[str]] = {}
        for name, part in sorted(ratchet.python.items()):
            parts.setdefault(part, []).append(name)
        for part, names in sorted(parts.items(), key=lambda item: (-len(item[1]), item[0])):
            text.append(f"| {len(names)} | {part} | {', '.join(f'`{n}`' for n in names[:2])} |")
    if ratchet.failing:
        text += [
            "",
            "## Why the rest does not",
            "",
            "| cases | reason | such as |",
            "|---|---|---|",
        ]
        for why, names in grouped(ratchet.failing).items():
            text.append(f"| {len(names)} | {why} | {', '.join(f'`{n}`' for n in names[:2])} |")
    return "\n".join(text) + "\n"
