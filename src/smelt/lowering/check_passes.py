"""Judging passes of a Sequential: the first one that changed what a program computes is named.

with PassContext(instruments=[CheckInstrument()]):
    mod = Sequential([first, second])(mod)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.errors import InternalError, SmeltError
from smelt.ir.module import IRModule
from smelt.ir.transform import PassInfo
from smelt.ir.types import TensorType
from smelt.ir.walk import free_vars
from smelt.relax.interpret import interpret as interpret_graph
from smelt.relax.nodes import Function
from smelt.tir.analysis.examples import random_array
from smelt.tir.interpret_expr import known_number
from smelt.tir.nodes import PrimFunc
from smelt.tir.verify import verify

from .instrument import Check, differs

Array = np.ndarray[Any, Any]
_SIZE = 5


class CheckInstrument:
    """For the instruments of a PassContext: interprets functions before and after every pass.

    A tensor program has to obey the rules of tensor programs and to compute what it did (see
    `Check`), a graph function to give equal results on random inputs. Functions that a pass adds,
    removes, or gives other parameters are not compared. Raises an InternalError that names the
    innermost pass; nothing is changed.
    """

    def __init__(self) -> None:
        """Nothing has run yet."""
        self.before: list[dict[str, Any]] = []

    def enter_pass_ctx(self) -> None:
        """Forget passes that did not come to their end."""
        self.before = []

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Remember what goes into a pass."""
        self.before.append(_functions(mod))

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Judge what has come out of it."""
        old = self.before.pop() if self.before else {}
        for name, new in _functions(mod).items():
            known = old.get(name)
            if known is not None and known is not new and type(known) is type(new):
                if isinstance(new, PrimFunc):
                    _judge_program(name, known, new, info.name)
                elif isinstance(new, Function):
                    _judge_graph(name, known, new, info.name, old, mod)


def _functions(mod: Any) -> dict[str, Any]:
    if isinstance(mod, IRModule):
        return dict(mod.functions)
    return {mod.name: mod} if isinstance(mod, PrimFunc) else {}


def _judge_program(name: str, old: PrimFunc, new: PrimFunc, step: str) -> None:
    """Refuse a tensor program that breaks a rule, or computes something else."""
    try:
        verify(new)
    except SmeltError as e:
        raise InternalError(f"{name}: the pass {step} made an invalid program: {e}") from e
    if [p.type for p in new.params[: len(old.params)]] == [p.type for p in old.params]:
        Check(old.with_attrs(name=name))(step, new)


def _judge_graph(
    name: str, old: Function, new: Function, step: str, before: dict[str, Any], after: Any
) -> None:
    """Refuse a graph function that gives other results."""
    inputs = _inputs(old)
    if inputs is None or len(new.params) != len(old.params):
        return
    try:
        expected = interpret_graph(old, *inputs, module=IRModule(before))
    except SmeltError:
        return  # not to be judged: random numbers are no good inputs, or it is too special
    try:
        found = interpret_graph(new, *inputs, module=after)
    except SmeltError as e:
        raise InternalError(f"{name}: the pass {step} made an invalid function: {e}") from e
    for n, (a, b) in enumerate(zip(found, expected, strict=False)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise InternalError(
                f"{name}: the pass {step} changed result {n} from {b.dtype} of shape {b.shape} to "
                f"{a.dtype} of shape {a.shape}"
            )
        if worst := differs(a, b):
            raise InternalError(
                f"{name}: the pass {step} changed result {n} (by {worst:.3g} of its largest value)"
            )
    if len(found) != len(expected):
        raise InternalError(f"{name}: the pass {step} made {len(found)} results of {len(expected)}")


def _inputs(function: Function) -> list[Array] | None:
    """Random inputs, every symbolic size being 5; None where one is no tensor."""
    rng = np.random.default_rng(7)
    out: list[Array] = []
    for p in function.params:
        if not isinstance(p.type, TensorType):
            return None
        known = [known_number(e, dict.fromkeys(free_vars(e), _SIZE)) for e in p.type.shape]
        shape = [n for n in known if n is not None]
        if len(shape) < len(known):
            return None
        out.append(random_array(rng, p.type.dtype, shape, (0, 2)))
    return out
