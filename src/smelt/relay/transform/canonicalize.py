"""One form for what can be said in several ways, and faster forms of costly operators."""

from __future__ import annotations

from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.relax.graph import transform, uses_of
from smelt.relax.graph_op import kind_of
from smelt.relax.nodes import Call, Function, RelaxExpr, Tuple
from smelt.relax.transform.engine import GraphRewriter, RuleSet
from smelt.relax.transform.match import dtype_of, given, rank_of
from smelt.relax.transform.rewriting import map_functions
from smelt.topi.registry import Op
from smelt.transform import Pass

from ..dialect import RELAY, is_call, make
from .inference import along
from .passes import graph_pass, rule_pass

BIAS_RULES = RuleSet(dialect=RELAY)


def CanonicalizeOps() -> Pass:
    """nn.bias_add becomes expand_dims and add."""
    return rule_pass("CanonicalizeOps", BIAS_RULES)


@BIAS_RULES.rule("nn.bias_add")
def plain_add(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """nn.bias_add(x, b, axis)  =  x + expand_dims(b)"""
    x, b = given(n)
    return make("add", x, along(b, n.attrs["axis"], rank_of(x)))


# ------------------------------------------------------------------------------------ FastMath

FAST = {"exp": "fast_exp", "tanh": "fast_tanh", "erf": "fast_erf", "nn.softmax": "nn.fast_softmax"}
"""Operators and their approximations."""

FAST_RULES = RuleSet(dialect=RELAY)


def FastMath() -> Pass:
    """exp, tanh, erf and nn.softmax of floats become their approximations."""
    return rule_pass("FastMath", FAST_RULES)


@FAST_RULES.rule(*FAST)
def approximated(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """f(x)  =  fast_f(x), roughly"""
    return make(FAST[n.callee], *n.args, **n.attrs) if dtype_of(n) == "float32" else None


# ---------------------------------------------------------------------------- CanonicalizeCast


def CanonicalizeCast() -> Pass:
    """A cast to a wider type that several operators read is repeated for each of them.

    Each then is part of its reader's kernel, and the narrow tensor is what stays in memory.
    """
    return graph_pass("CanonicalizeCast", _repeat_casts)


def _repeat_casts(mod: IRModule) -> IRModule:
    return map_functions(mod, _repeated)


def _repeated(f: Function) -> Function:
    uses = uses_of(f)
    casts: set[Node] = {
        n for n in postorder(f) if is_call(n, "cast") and uses[n] > 1 and _widens(n)
    }
    if not casts:
        return f
    seen: set[Node] = set()

    def repeat(old: Any, new: Any) -> RelaxExpr | None:
        if not isinstance(old, Call) or not isinstance(old.op, Op):
            return None
        args = list(new.args)
        for i, a in enumerate(old.args):
            if a in casts and _light(old):
                if a in seen:
                    args[i] = args[i].replace()
                seen.add(a)
        return new.replace(args=tuple(args))  # type: ignore[no-any-return]

    return transform(f, repeat)  # type: ignore[no-any-return]


def _widens(n: Any) -> bool:
    return bool(dt.bits(dtype_of(n)) > dt.bits(dtype_of(n.args[0])))


def _light(n: Call) -> bool:
    return kind_of(n) in ("elementwise", "broadcast", "injective")


# ----------------------------------------------------------------------------------- SplitArgs


def SplitArgs(max_function_args: int) -> Pass:
    """concatenate of more tensors than a kernel may have becomes several of them.

    max_function_args  operands of one concatenate, at least 2
    """
    if max_function_args < 2:
        raise CompileError(f"SplitArgs: max_function_args={max_function_args}; 2 or more are legal")

    rules = RuleSet(dialect=RELAY)

    @rules.rule("concatenate")
    def in_parts(g: GraphRewriter, n: Call) -> RelaxExpr | None:
        """concatenate(a, b, c, d)  =  concatenate(concatenate(a, b), concatenate(c, d))"""
        items = n.args[0].items if isinstance(n.args[0], Tuple) else ()
        if len(items) <= max_function_args:
            return None
        parts: list[RelaxExpr] = []
        for i in range(0, len(items), max_function_args):
            part = items[i : i + max_function_args]
            whole = make("concatenate", Tuple(part), **n.attrs) if len(part) > 1 else part[0]
            parts.append(whole)
        return make("concatenate", Tuple(tuple(parts)), **n.attrs)

    return rule_pass("SplitArgs", rules)
