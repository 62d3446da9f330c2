"""Which kernels write their results into the memory of an operand: updates in place.

A value of a graph never changes, so an update gives a new value. Where the operand that it changes
is read by nothing afterwards, both may be one piece of memory: then only what differs is written.
Everything else that reads the operand runs before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.node import Node, ordered, postorder
from smelt.ir.types import IncompleteType, TensorType, TupleType, Type, tensor_type
from smelt.runtime.errors import kind_of, unknown
from smelt.topi.registry import Op

from . import nodes as relax
from .graph import is_foreign
from .graph_op import by_element
from .nodes import INPLACE, same_types
from .shapes import show_type

UPDATES = "updates"
"""The attribute of a function: parameters that become results in their own memory, and which."""
STATES = "states"
"""The attribute of a function: parameters that are a result of the call before, and which."""
STARTS = "starts"
"""The attribute of a function: parameters that are kept, and constants with which they begin; the
others begin as zeros."""

Kept = str | tuple[str, Any]
"""What an input is kept as: the name of an output, or that and the array with which it begins."""


class Root(NamedTuple):
    """The value whose memory a value is a view of: a parameter, a constant, a result of a call."""

    value: relax.RelaxExpr
    item: int = 0


def root_of(v: relax.RelaxExpr) -> Root:
    """Whose memory a value is, or is a view of."""
    while True:
        match v:
            case relax.Call(Op(), (relax.RelaxExpr() as source, *_)):
                v = source
            case relax.TupleGetItem(relax.Tuple(items), index):
                v = items[index]
            case relax.TupleGetItem(value, index):
                return Root(value, index)
            case _:
                return Root(v)


def given(call: relax.Call) -> list[relax.RelaxExpr]:
    """The operands that are not left out."""
    return [a for a in call.args if a is not None]


class Updates:
    """The updates of a graph of kernels, whose operators are all views.

    of     by call: for each result the operand whose memory it is, or -1
    first  by call: what has to have run before it
    """

    def __init__(self, mod: IRModule, inout: Mapping[relax.Var, int]) -> None:
        """inout: the parameters that may be written to, and the result that each becomes, or -1."""
        self.mod, main = mod, mod["main"]
        self.of: dict[Node, tuple[int, ...]] = {}
        self.first: dict[Node, list[relax.Call]] = {}
        self.kept = {root_of(r): n for n, r in enumerate(main.results())}
        self.inout = inout
        order = list(relax.values(main.body))
        self.calls = [v for v in order if isinstance(v, relax.Call) and not isinstance(v.op, Op)]
        self.readers: dict[Root, list[relax.Call]] = {}
        self.updated: dict[Root, relax.Call] = {}
        wanted = [c for c in self.calls if self.candidates(c)]
        for c in self.calls if wanted else ():
            for a in given(c):
                self.readers.setdefault(root_of(a), []).append(c)
        for c in wanted:
            self.decide(c)

    def values(self) -> list[relax.RelaxExpr]:
        """All values, operands first, and what reads an operand before what updates it."""
        return list(relax.values(self.mod["main"].body, self.before))

    def before(self, v: Node) -> list[Node]:
        """What comes before a value."""
        return [*relax.below(v), *self.first.get(v, ())]

    def candidates(self, c: relax.Call) -> list[tuple[int, int]]:
        """What of a call might be done in place: (result, operand)."""
        callee = self.mod.functions[c.callee]
        if not isinstance(callee, relax.Function):
            listed = c.attrs.get(INPLACE, ())
            return [(n, operand) for n, operand in enumerate(listed) if operand >= 0]
        if is_foreign(callee):
            return []
        return [(0, n) for n in self.operands(callee, c)]

    def operands(self, group: relax.Function, c: relax.Call) -> Iterator[int]:
        """The operands of a kernel that it may write to, the best first."""
        body = group.body
        if (at := updated_operand(group)) is not None:
            yield at
        elif isinstance(body, relax.Call) and self.inout:
            roots = [root_of(a).value for a in given(c)]
            becomes = [self.inout.get(r, -1) if isinstance(r, relax.Var) else -1 for r in roots]
            result = self.kept.get(Root(c), -1)
            inside = [v for v in relax.values(body) if isinstance(v, relax.Call)]
            if result in becomes and result >= 0 and all(map(by_element, inside)):
                yield becomes.index(result)

    def decide(self, c: relax.Call) -> None:
        """Settle which results of a call stand in the memory of an operand."""
        found = [-1] * len(relax.tensor_types(c.type))
        for result, operand in self.candidates(c):
            if found[result] < 0 and self.is_free(c, result, operand):
                root = root_of(given(c)[operand])
                found[result] = operand
                self.updated[root] = c
                self.first.setdefault(c, []).extend([r for r in self.readers[root] if r is not c])
        if max(found, default=-1) >= 0:
            self.of[c] = tuple(found)

    def is_free(self, c: relax.Call, result: int, operand: int) -> bool:
        """Whether an operand's memory may be written to, and holds a result."""
        x, others = given(c)[operand], [a for n, a in enumerate(given(c)) if n != operand]
        root = root_of(x)
        if isinstance(root.value, relax.Constant) or root in self.kept or _repeats(x):
            return False
        if isinstance(root.value, relax.Var) and root.value not in self.inout:
            return False
        if root in self.updated or root in map(root_of, others):
            return False
        if late_reader(c, self.readers[root], self.before) is not None:
            return False
        return same_types(x.type, relax.tensor_types(c.type)[result])


def late_reader(
    c: relax.Call, readers: Sequence[relax.Call], before: Callable[[Node], list[Node]]
) -> relax.Call | None:
    """Which reader of what a call updates cannot run before it, since it needs its results.

    before  what comes before a value
    """

    def needed(v: Node) -> list[Node]:
        return [] if v is c else before(v)

    for r in readers:
        start: tuple[Node, ...] = (r,)
        if r is not c and any(v is c for v in ordered(start, needed)):
            return r
    return None


def earlier_readers(root: Node) -> dict[Node, list[relax.Call]]:
    """What reads the operands that programs in an expression update, by the calls that update."""
    calls = [v for v in postorder(root) if isinstance(v, relax.Call)]
    found: dict[Node, list[relax.Call]] = {}
    for c in calls:
        for x in written_operands(c):
            readers = [r for r in calls if r is not c and any(a is x for a in r.args)]
            found.setdefault(c, []).extend(readers)
    return found


def written_operands(c: relax.Call) -> list[relax.RelaxExpr]:
    """The operands that a call of a program updates in place (call_tir_inplace)."""
    return [given(c)[n] for n in c.attrs.get(INPLACE, ()) if n >= 0]


def written_parameters(main: relax.Function) -> dict[int, int]:
    """The parameters that programs called by a function update, and the result that each is."""
    return _sources(main, lambda c: c.attrs.get(INPLACE))


def _sources(
    main: relax.Function, updates: Callable[[relax.Call], Sequence[int] | None]
) -> dict[int, int]:
    """The parameters of which results are updates, and the first result of each.

    updates  of a call: for each result the operand that it is an update of, or -1
    """
    numbers: dict[relax.RelaxExpr, int] = {p: n for n, p in enumerate(main.params)}
    found: dict[int, int] = {}
    whole, results = main.body, main.results()
    if isinstance(whole.type, TupleType) and not isinstance(whole, relax.Tuple):
        results = tuple([relax.TupleGetItem(whole, n) for n in range(len(whole.type.items))])
    for n, r in enumerate(results):
        root, updated = root_of(r), False
        while isinstance(root.value, relax.Call):
            operand = (updates(root.value) or (-1,) * (root.item + 1))[root.item]
            if operand < 0:
                break
            root, updated = root_of(given(root.value)[operand]), True
        if updated and root.value in numbers and same_types(r.type, root.value.type):
            found.setdefault(numbers[root.value], n)
    return found


def states_and_updates(mod: IRModule) -> dict[str, dict[int, int]]:
    """Of a program that decides while it runs: the inputs of "main" that are a result of the call
    before, and those that a run may write to, which are these and what programs update."""
    main = mod.functions.get("main")
    if not isinstance(main, relax.Function):
        return {}
    states = dict(main.attrs.get(STATES, ()))
    return {STATES: states, UPDATES: written_parameters(main) | states}


def updated_operand(group: relax.Function) -> int | None:
    """The operand that a kernel of one operator gives back with some of its elements changed."""
    body = group.body
    if not (isinstance(body, relax.Call) and isinstance(body.op, Op) and body.op.update):
        return None
    first = body.args[0]
    if not isinstance(first, relax.Var) or first in body.args[1:] or first.type != body.type:
        return None
    return group.params.index(first)


def carried(mod: IRModule) -> dict[int, int]:
    """The parameters of a fused "main" of which results are updates, and which results."""
    found = Updates(mod, dict.fromkeys(mod["main"].params, -1))
    return _sources(mod["main"], found.of.get) if found.of else {}


def with_updates(mod: IRModule, pairs: Mapping[int, int]) -> IRModule:
    """A module whose "main" may write to parameters; pairs: the result that each becomes."""
    if not pairs:
        return mod
    main = mod["main"].with_attr(UPDATES, tuple(sorted(pairs.items())))
    return mod.with_functions({"main": main})


def updates_of(mod: IRModule, pure: bool = False) -> dict[int, int]:
    """The parameters of a fused "main" that become results in their own memory, and which.

    pure  what calls it does without: values that are updates are found here
    """
    main = mod["main"]
    results, found = main.results(), written_parameters(main)
    found = carried(mod) | found if pure else found
    for i, o in main.attrs.get(STATES, ()):
        if same_types(main.params[i].type, results[o].type):
            found[i] = o
    return found


def refuse_forms(name: str, inputs: Sequence[str], state: object) -> None:
    """Raise a CompileError where a model whose form depends on values of inputs is to have a
    state."""
    if state:
        raise CompileError(
            f"state: the form of {name} depends on the inputs {', '.join(inputs)}, and each form "
            "would have a state of its own; give these inputs as values={...}"
        )


def result_names(main: relax.Function, names: Sequence[str]) -> Sequence[str]:
    """The names of a function's results, given those that its model file has: behind them stands
    what becomes of the file's own variables."""
    behind = STATES in main.attrs and not main.attrs.get("output_groups")
    return main.attrs.get("output_names", names) if behind else names


def with_states(
    main: relax.Function, pairs: Mapping[int, int], starts: Mapping[int, np.ndarray]
) -> relax.Function:
    """A function of which parameters are results of the call before.

    pairs   the parameters, and the result that each is
    starts  those that do not begin as zeros
    """
    whole = {i: np.asarray(a, order="C") for i, a in starts.items()}
    first = {i: relax.constant(a) for i, a in whole.items() if a.reshape(-1).view(np.uint8).any()}
    attrs = {**main.attrs, STATES: tuple(sorted(pairs.items()))}
    return main.replace(attrs=attrs | ({STARTS: tuple(sorted(first.items()))} if first else {}))


def starts_of(main: relax.Function) -> dict[int, np.ndarray]:
    """The parameters that are kept and do not begin as zeros, and what they begin as."""
    return {i: c.data for i, c in main.attrs.get(STARTS, ())}


def declare_states(
    mod: IRModule, state: Mapping[str, Kept] | None, outputs: Sequence[str] = ()
) -> IRModule:
    """A module of which inputs are an output of the call before.

    state    the inputs by name, and the names of these outputs; a * in both stands for the same
             part of names, "past.*": "present.*"; with an array behind it, ("present", array), an
             input begins as that, else as zeros; None: there are none
    outputs  the names of main's results, where its attributes do not say them

    Raises CompileError where a name is unknown or twice, or where types cannot belong together.
    """
    if not state:
        return mod
    main = mod["main"]
    if not isinstance(state, Mapping):
        raise CompileError(f'state is {kind_of(state)}; legal: a dict, {{"past": "present"}}')
    whole = main.body.type
    types = list(whole.items) if isinstance(whole, TupleType) else [whole]
    names = list(outputs or main.attrs.get("output_names") or ())
    names = names if len(names) == len(types) else [f"output{n}" for n in range(len(types))]
    params = {p.name: n for n, p in enumerate(main.params)}
    pairs: dict[int, int] = dict(main.attrs.get(STATES, ()))
    starts = starts_of(main)
    for name, output, first in [pair for one in state.items() for pair in _expanded(*one, params)]:
        for role, given, known in (("input", name, params), ("output", output, names)):
            if given not in known:
                raise CompileError(f"state: the model has {unknown(role, given, known)}")
        i, o = params[name], names.index(output)
        if o in pairs.values():
            raise CompileError(f"state: the output {output!r} belongs to two inputs")
        if not _may_follow(types[o], main.params[i].type):
            raise CompileError(
                f"state: the input {name!r} is {_listed(main.params[i].type)}, the output "
                f"{output!r} is {_listed(types[o])}: what one call gives has to fit the next one"
            )
        pairs[i] = o
        starts.pop(i, None)
        if first is not None:
            starts[i] = _first_value(name, main.params[i].type, first)
    return mod.with_functions({"main": with_states(main, pairs, starts)})


def _first_value(name: str, wanted: Type, given: Any) -> np.ndarray:
    """An array as the first value of an input that is kept. Raises CompileError where it does not
    fit."""
    array = np.asarray(given)
    where = f"state: the first value of {name!r} is"
    if array.dtype == object or array.dtype.kind in "US":
        raise CompileError(f"{where} {kind_of(given)}; legal: an array of numbers")
    own = tensor_type(array.shape, dt.from_numpy(array.dtype))
    if not _may_follow(own, wanted):
        raise CompileError(f"{where} {_listed(own)}, the input {_listed(wanted)}")
    return array.copy()  # what is written to the caller's one later is not meant


def _expanded(name: str, kept: Kept, params: Iterable[str]) -> list[tuple[str, str, Any]]:
    """The pairs that a pair of names stands for, itself or all that a * stands for, each with what
    its input begins as, None: zeros."""
    output, first = kept if isinstance(kept, tuple) and len(kept) == 2 else (kept, None)
    if str(name).count("*") != 1 or str(output).count("*") != 1:
        return [(name, output, first)]
    front, behind = name.split("*")
    shared = len(front) + len(behind)
    fits = [p for p in params
            if p.startswith(front) and p.endswith(behind) and len(p) > shared]  # fmt: skip
    inside = [p[len(front) : len(p) - len(behind)] for p in fits]
    pairs = [(p, output.replace("*", i), first) for p, i in zip(fits, inside, strict=True)]
    return pairs or [(name, output, first)]


def _listed(t: Type) -> str:
    return show_type(t) if isinstance(t, TensorType) else "no tensor"


def _may_follow(result: Type, wanted: Type) -> bool:
    """Whether a result of one call may be an input of the next."""
    if not (isinstance(result, TensorType) and isinstance(wanted, TensorType)):
        return isinstance(result, IncompleteType) or isinstance(wanted, IncompleteType)
    if result.dtype != wanted.dtype or result.rank != wanted.rank:
        return False
    pairs = [(value_of(a), value_of(b)) for a, b in zip(result.shape, wanted.shape, strict=True)]
    return all(b is None or a in (None, b) for a, b in pairs)


def _repeats(v: relax.RelaxExpr) -> bool:
    """Whether a view on the way to a value's memory repeats elements."""
    while isinstance(v, relax.Call) and isinstance(v.op, Op):
        if v.op.name == "broadcast_to":
            return True
        assert v.args[0] is not None
        v = v.args[0]
    return False
