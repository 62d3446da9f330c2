"""`python -m tests.onnx_writer.suite`: the cases of ONNX's backend suite, read and written.

without.txt lists those that do not come through with the reason; reference.txt those that onnx's
own evaluator runs and onnxruntime does not. Both may only become shorter.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from smelt.frontend.onnx import NeedsValues, from_onnx
from smelt.ir.errors import SmeltError
from smelt.ir.module import IRModule
from smelt.ir.node import postorder
from smelt.relax.host_ops import is_host_call
from smelt.relax.transform.canonicalize import simplify_graph
from smelt.relax.transform.rewriting import functions_of
from tests.conformance import ratchet
from tests.conformance.compare import Mismatch, check
from tests.conformance.suite import Case, DataSet, load

from .written import evaluator, newest, runtime

FOLDER = Path(__file__).parent
UPDATE = "python -m tests.onnx_writer.suite"
ONLY_REFERENCE = "reference: "
WIDTH = 160


def straight(case: Case) -> tuple[onnx.ModelProto, IRModule, list[DataSet]] | None:
    """A case's module and data; None where inputs are no tensors, or smelt does not import it."""
    model, given = case.read()
    sets = list(given)
    if any(isinstance(x, list) or x is None for inputs, _ in sets for x in inputs):
        return None
    try:
        return model, from_onnx(model), sets
    except NeedsValues as error:
        feeds = fed(model, sets[0])
        values = {n: feeds[n] for n in error.inputs}
        shapes = {n: feeds[n].shape for n in error.shapes}
    except SmeltError:
        return None
    try:
        return model, from_onnx(model, shapes, values=values), sets[:1]
    except SmeltError:
        return None


def fed(model: onnx.ModelProto, data: DataSet) -> dict[str, Any]:
    """The inputs by name."""
    known = {t.name for t in model.graph.initializer}
    names = [i.name for i in model.graph.input]
    if len(names) != len(data[0]):
        names = [n for n in names if n not in known]
    return {n: np.asarray(x) for n, x in zip(names, data[0], strict=True)}


def outcome(case: Case) -> str | None:
    """Why a case does not come through, straight or simplified; "" where it does, None: no case."""
    found = straight(case)
    if found is None:
        return None
    model, mod, sets = found
    calls = [n for f in functions_of(mod).values() for n in postorder(f) if is_host_call(n)]
    forms = [mod] if calls else [mod, simplify_graph(mod)]
    reasons = [_of_form(case, model, form, sets) for form in forms]
    return next((r for r in reasons if r and not r.startswith(ONLY_REFERENCE)), max(reasons))


def _of_form(case: Case, model: onnx.ModelProto, mod: IRModule, sets: list[DataSet]) -> str:
    try:
        made = newest(mod)
    except SmeltError as error:
        return _short(str(error).split("\n", 1)[-1])
    except onnx.shape_inference.InferenceError as error:
        return _short(f"invalid: {error}")
    wrong = ""
    for start in (runtime, evaluator):
        try:
            run = start(made)
            for data in sets:
                feeds = fed(model, data)
                got = run({i.name: feeds[i.name] for i in made.graph.input})
                check(got, _flat(data[1]), case.rtol, case.atol)
        except Exception as error:  # theirs have no class in common
            wrong = wrong or f"{'' if isinstance(error, Mismatch) else 'fails: '}{error}"
            continue
        return ONLY_REFERENCE + _short(wrong) if wrong else ""
    return _short(wrong)


def _flat(wanted: Iterable[Any]) -> list[Any]:
    """Results one by one: the items of sequences are results."""
    return [r for w in wanted for r in (w if isinstance(w, list | tuple) else [w])]


def _short(text: str) -> str:
    line = " ".join(text.split())
    line = re.sub(r"\[ONNXRuntimeError\] : \d+ : ", "", line)
    return re.split(r" (?:legal|with node name|node with name)\b", line)[0][:WIDTH].strip()


def names() -> dict[str, Case]:
    """The cases by name, without those that smelt itself does not pass."""
    failing = ratchet.read().failing
    return {n: c for n, c in load().items() if n not in failing}


def lists() -> dict[str, dict[str, str]]:
    """Both lists: case -> reason."""
    found = {}
    for name in ("without", "reference"):
        _, lines = ratchet.lines(FOLDER / f"{name}.txt")
        found[name] = dict(line.split("  ", 1) for line in lines)
    return found


def sorted_out(results: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Both lists as results say them."""
    found: dict[str, dict[str, str]] = {"without": {}, "reference": {}}
    for name, reason in results.items():
        if reason.startswith(ONLY_REFERENCE):
            found["reference"][name] = reason.removeprefix(ONLY_REFERENCE)
        elif reason:
            found["without"][name] = reason
    return found


def main() -> None:
    """Write both lists anew."""
    warnings.simplefilter("ignore")
    outcomes = {name: outcome(case) for name, case in names().items()}
    results = {name: reason for name, reason in outcomes.items() if reason is not None}
    for name, listed in sorted_out(results).items():
        lines = [ratchet.HEAD + onnx.__version__, *[f"{n}  {r}" for n, r in listed.items()]]
        (FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{name}: {len(listed)} of {len(results)}")


if __name__ == "__main__":
    main()
