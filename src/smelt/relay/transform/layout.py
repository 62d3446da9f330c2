"""ConvertLayout and AlterOpLayout: convolutions in another order of dimensions.

What follows them (sums, biases, normalisations, pooling, concatenations, reductions) goes along by
its attributes; `layout_transform` stands where a value enters or leaves the new order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.relax.graph_op import GraphOp, kind_of
from smelt.relax.nodes import Call, Function, RelaxExpr, Tuple, TupleGetItem, renewed_call
from smelt.relax.transform.match import given, rank_of
from smelt.relax.transform.rewriting import map_functions
from smelt.runtime.entered import Entered
from smelt.runtime.errors import nearest
from smelt.transform import Pass

from ..dialect import RELAY, is_call, make
from .passes import graph_pass

DEFAULT_KERNEL = {"NCHW": "OIHW", "NHWC": "HWIO", "NCW": "OIW", "NWC": "WIO", "NCDHW": "OIDHW",
                  "NDHWC": "DHWIO", "HWNC": "HWOI"}  # fmt: skip
"""The layout of weights that "default" stands for."""

Form = tuple[str, str]
"""(the layout that the program says, the layout that the value has)."""


_CURRENT: ContextVar[LayoutConfig | None] = ContextVar("relay.LayoutConfig", default=None)


class LayoutConfig(Entered):
    """Which convolutions ConvertLayout leaves alone: `with LayoutConfig(skip_layers=[0]): ...`.

    skip_layers  numbers of convolutions in the order of the graph (-1: the last), or names of
                 operators
    """

    def __init__(self, skip_layers: Sequence[int | str] | None = None) -> None:
        """Keep what to skip."""
        self.skip_layers = tuple(skip_layers or ())

    _current = _CURRENT


def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> Pass:
    """Convolutions and pooling in the layouts asked for.

    desired_layouts  by operator, e.g. {"nn.conv2d": ["NHWC", "default"]}: the layout of the data,
                     then that of the weights; "default" is the usual one for the other
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for name, asked in desired_layouts.items():
        layouts = (asked,) if isinstance(asked, str) else tuple(asked)
        known = [n for n, op in RELAY.ops.items() if op.order in ("weights", "layout")]
        if name not in known:
            hint = nearest(name, known)
            raise TypeMismatch(f"ConvertLayout: no layout of {name!r} can be chosen{hint}")
        wanted[name] = layouts
    return graph_pass("ConvertLayout", lambda mod: _converted(mod, wanted))


def AlterOpLayout() -> Pass:
    """Convolutions of images with the channels last, which is what kernels for CPUs read.

    relay.build chooses layouts itself when it plans memory; this pass shows the choice, and blocks
    of channels (NCHW16c) are a matter of its kernels.
    """
    wanted = {"nn.conv2d": ("NHWC", "default")}
    return graph_pass("AlterOpLayout", lambda mod: _converted(mod, wanted))


def _converted(mod: IRModule, wanted: Mapping[str, tuple[str, ...]]) -> IRModule:
    config = _CURRENT.get()
    skip = () if config is None else config.skip_layers
    return map_functions(mod, lambda f: _Convert(f, wanted, skip).run())


def relaid(x: RelaxExpr, have: str, want: str) -> RelaxExpr:
    """A tensor in another layout."""
    return x if have == want else make("layout_transform", x, src_layout=have, dst_layout=want)


class _Convert:
    """One function. Every value has a new form; `forms` tells in which layout, where it is another
    than the program says."""

    def __init__(
        self, f: Function, wanted: Mapping[str, tuple[str, ...]], skip: Sequence[int | str]
    ) -> None:
        self.f, self.wanted = f, wanted
        self.done: dict[Node, Any] = {}
        self.forms: dict[Node, Form | list[Form | None]] = {}
        self.turned: dict[tuple[Node, str], RelaxExpr] = {}
        movable = [name for name in wanted if RELAY.get(name).order == "weights"]
        anchors = [n for n in postorder(f) if is_call(n, *movable)]
        numbers = {s % len(anchors) for s in skip if isinstance(s, int) and anchors}
        self.skipped = {n for i, n in enumerate(anchors) if i in numbers}
        self.skipped |= {n for n in anchors if n.callee in skip}

    def run(self) -> Function:
        """The function in the new layouts."""
        for node in postorder(self.f):
            made: Any = self.call(node) if isinstance(node, Call) else None
            if made is None:
                made = self.moved(node)
            if made is None:
                made = node.with_children(self.plain)
            self.done[node] = made
        return self.done[self.f]  # type: ignore[no-any-return]

    def form(self, old: Any) -> Form | None:
        """The layouts of a tensor, where its new form has another than the program says."""
        found = self.forms.get(old)
        return found if isinstance(found, tuple) else None

    def plain(self, old: Any) -> Any:
        """The new form of a value in the layout that the program says."""
        found = self.forms.get(old)
        new = self.done.get(old, old)
        if found is None:
            return new
        if isinstance(found, list):
            items = [TupleGetItem(new, i) for i in range(len(found))]
            back = [
                i if form is None else relaid(i, form[1], form[0])
                for i, form in zip(items, found, strict=True)
            ]
            return Tuple(tuple(back))
        return self.in_layout(old, found[0], found[0])

    def in_layout(self, old: RelaxExpr, said: str, want: str) -> RelaxExpr:
        """A value that the program has in the layout `said`, in another one."""
        form = self.form(old)
        new = self.done.get(old, old)
        have = said if form is None else form[1]
        if form is not None and form[0] != said:
            new, have = self.plain(old), said
        key = (new, want)
        if key not in self.turned:
            self.turned[key] = relaid(new, have, want)
        return self.turned[key]

    def moved(self, node: Node) -> Any:
        """Tuples and their items keep the forms of what they hold."""
        match node:
            case TupleGetItem(value, index):
                forms = self.forms.get(value)
                if isinstance(forms, list):
                    if forms[index] is not None:
                        self.forms[node] = forms[index]  # type: ignore[assignment]
                    return TupleGetItem(self.done[value], index)
        return None

    def call(self, n: Call) -> RelaxExpr | None:
        """A call in a new layout; None: it is made of plain operands."""
        op = n.op
        if not isinstance(op, GraphOp) or RELAY.ops.get(op.name) is not op:
            return None
        if op.order == "weights":
            asked = self.wanted.get(op.name)
            return None if asked is None or n in self.skipped else self.anchor(n, *asked)
        if op.order == "layout":
            return self.by_layout(n)
        handler = _HANDLERS.get(op.order)
        if handler is None:
            return self.broadcast(n) if kind_of(n) in ("elementwise", "broadcast") else None
        if isinstance(n.args[0], Tuple):
            return self.concatenate(n, n.args[0])
        form = self.form(n.args[0])
        return None if form is None else handler(self, n, *form)

    # -------------------------------------------------------------------------------- kinds

    def anchor(self, n: Call, data: str, weights: str = "default") -> RelaxExpr:
        """A convolution in the layouts asked for."""
        said, said_w = n.attrs["data_layout"], n.attrs["kernel_layout"]
        out = n.attrs["out_layout"] or said
        if data == "default":
            data = said
        if weights == "default":
            weights = _default_kernel(n, data, said_w)
        for have, want, what in ((said, data, "data"), (said_w, weights, "weights")):
            if sorted(have) != sorted(want):
                raise TypeMismatch(
                    f"ConvertLayout: {n.callee} has {what} in {have}; {want!r} has other dimensions"
                )
        x, w = given(n)[:2]
        made = renewed_call(
            n, self.in_layout(x, said, data), self.in_layout(w, said_w, weights),
            *[self.plain(a) for a in n.args[2:]],
            data_layout=data, kernel_layout=weights, out_layout="",
        )  # fmt: skip
        if out != data:
            self.forms[n] = (out, data)
        return made

    def by_layout(self, n: Call) -> RelaxExpr | None:
        """An operator that says its layout, in the one that its operand has or that is wanted."""
        x, said = given(n)[0], n.attrs["layout"]
        form = self.form(x)
        asked = self.wanted.get(n.callee)
        want = asked[0] if asked else form[1] if form is not None and form[0] == said else said
        if want == said or n.attrs.get("out_layout"):
            return None
        rest = [self.plain(a) for a in n.args[1:]]
        self.forms[n] = (said, want)
        return renewed_call(n, self.in_layout(x, said, want), *rest, layout=want)

    def renewed(self, n: Call, **attrs: Any) -> RelaxExpr:
        """A call whose first operand stays in its layout."""
        first, *rest = n.args
        new: RelaxExpr = self.done[first]  # type: ignore[index]
        return renewed_call(n, new, *[self.plain(a) for a in rest], **attrs)

    def by_axis(self, n: Call, said: str, have: str) -> RelaxExpr | None:
        """An operator on one axis of its first operand."""
        made = self.renewed(n, axis=have.index(said[n.attrs["axis"] % len(said)]))
        items = getattr(n.type, "items", None)
        if items is None:
            self.forms[n] = (said, have)
        else:  # statistics along the axis have one dimension
            self.forms[n] = [(said, have) if len(t.shape) == len(said) else None for t in items]
        return made

    def broadcast(self, n: Call) -> RelaxExpr | None:
        """Operands element by element: all in the layout of the first that has one."""
        form = next((g for a in n.args if (g := self.form(a)) and rank_of(a) == rank_of(n)), None)
        if form is None or isinstance(getattr(n.type, "items", None), tuple):
            return None
        if n.callee.startswith("qnn.") and any(rank_of(a) == 1 for a in n.args):
            return None  # scales along an axis, which attributes name
        args: list[RelaxExpr | None] = []
        for a in n.args:
            known = self._beside(a, form, len(form[0]))
            if known is None and a is not None:
                return None
            args.append(known)
        self.forms[n] = form
        return renewed_call(n, *args)

    def _beside(self, a: RelaxExpr | None, form: Form, rank: int) -> RelaxExpr | None:
        """An operand that broadcasts against a value of a form."""
        if a is None:
            return None
        if rank_of(a) == rank:
            return self.in_layout(a, form[0], form[1])
        x: RelaxExpr = self.plain(a)
        if rank_of(a) == 0:
            return x
        if not 0 < rank_of(a) < rank:
            return None
        full = make("expand_dims", x, axis=0, num_newaxis=rank - rank_of(a))
        return relaid(full, *form)

    def concatenate(self, n: Call, given: Tuple) -> RelaxExpr | None:
        """Tensors behind each other, all in one layout."""
        form = next((g for i in given.items if (g := self.form(i))), None)
        if form is None:
            return None
        said, have = form
        parts = tuple([self.in_layout(i, said, have) for i in given.items])
        self.forms[n] = form
        axis = have.index(said[n.attrs["axis"] % len(said)])
        return renewed_call(n, Tuple(parts), axis=axis)

    def pad(self, n: Call, said: str, have: str) -> RelaxExpr | None:
        """The numbers around each dimension go with it."""
        widths = n.attrs["pad_width"]
        self.forms[n] = (said, have)
        return self.renewed(n, pad_width=tuple([widths[said.index(c)] for c in have]))

    def reduction(self, n: Call, said: str, have: str) -> RelaxExpr | None:
        """Over the same dimensions, wherever they are; without them the order has to be right."""
        axis = n.attrs["axis"]
        many = axis if isinstance(axis, tuple) else range(len(said)) if axis is None else (axis,)
        over = {said[a % len(said)] for a in many}
        if n.attrs["exclude"]:
            over = set(said) - over
        rest = [[c for c in layout if c not in over] for layout in (said, have)]
        if n.attrs["keepdims"]:
            self.forms[n] = (said, have)
        elif rest[0] != rest[1]:
            return None
        axes = tuple([i for i, c in enumerate(have) if c in over])
        return renewed_call(n, self.done[n.args[0]], axis=axes, exclude=False)  # type: ignore[index]


def _default_kernel(n: Call, data: str, said: str) -> str:
    usual = DEFAULT_KERNEL.get(data, said)
    if "transpose" in n.callee and sorted(usual) == sorted(said):
        return usual if data.endswith("C") else said
    deep = n.attrs["groups"] > 1 and usual == "HWIO"
    return "HWOI" if deep else usual


_HANDLERS: dict[str, Callable[[_Convert, Call, str, str], RelaxExpr | None]] = {
    "axis": _Convert.by_axis,
    "reduced": _Convert.reduction,
    "widths": _Convert.pad,
}
"""By `GraphOp.order`, what is done where an operand has another layout than the program says."""
