"""What of a model would work, operator by operator, without compiling it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smelt.frontend.common import NeedsValues
from smelt.frontend.common.graph import with_branches
from smelt.frontend.common.inputs import Given, Shapes
from smelt.frontend.common.problems import reason_of
from smelt.ir.errors import Unsupported

from .importer import Importer
from .read import load


@dataclass(frozen=True)
class OperatorState:
    """Nodes of one operator and version that share a state.

    state   "works", "needs values" (a form is compiled for each set of values of some inputs),
            "not supported", or "not reached" (it needs a result of such a node)
    reason  why, where it does not simply work
    """

    operator: str
    nodes: tuple[str, ...]
    state: str
    reason: str = ""


@dataclass(frozen=True)
class Survey:
    """The operators of a model, and whether it can be compiled.

    run_time  whether the program decides while it runs
    """

    model: str
    operators: tuple[OperatorState, ...]
    run_time: bool

    @property
    def works(self) -> bool:
        """Whether every node is supported."""
        return all(o.state in ("works", "needs values") for o in self.operators)


def survey(
    model: object,
    shapes: Shapes | None = None,
    values: Mapping[str, Given] | None = None,
    operators: Mapping[str, Any] | None = None,
) -> Survey:
    """Look at a model; the arguments are those of from_onnx.

    Raises NeedsValues where nothing can be said before inputs have shapes, and what from_onnx
    raises for a broken model.
    """
    loaded = load(model)
    importer = Importer(loaded, shapes or {}, values or {}, operators or {})
    try:
        importer.function()
    except Unsupported:
        if not importer.problems.missing and not importer.problems.raised:
            raise
    found: dict[tuple[str, str, str], list[str]] = {}
    states = {id(step): ("not supported", "no such operator here")
              for steps in importer.problems.missing.values() for step in steps}  # fmt: skip
    for step, _, error in importer.problems.raised:
        state = "needs values" if isinstance(error, NeedsValues) else "not supported"
        states[id(step)] = (state, reason_of(error))
    states.update({n: ("not reached", "") for n in importer.passed_over if n not in states})
    for step in with_branches(importer.steps):
        state, reason = states.get(id(step), ("works", ""))
        found.setdefault((importer.label(step), state, reason), []).append(step.label)
    rows = [OperatorState(op, tuple(n), s, r) for (op, s, r), n in sorted(found.items())]
    return Survey(loaded.name, tuple(rows), importer.decides)
