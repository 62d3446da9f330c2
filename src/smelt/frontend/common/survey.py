"""What of a model would work, operator by operator, without compiling it."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.ir.errors import Unsupported

from .graph import with_branches
from .problems import NeedsValues, reason_of
from .walk import Importer


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


def survey_of(importer: Importer) -> Survey:
    """Let an importer convert its model as far as it can, and say what came of each node.

    Raises NeedsValues where nothing can be said before inputs have shapes, and what the importer
    raises for a broken model.
    """
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
    return Survey(importer.model, tuple(rows), importer.decides)
