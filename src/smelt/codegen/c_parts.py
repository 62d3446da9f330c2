"""Parts of a program as functions of their own, so that their registers are theirs."""

from __future__ import annotations

from smelt.ir import dtype as dt
from smelt.ir.expr import Call, StringImm, Var
from smelt.ir.walk import free_vars
from smelt.tir.nodes import BufferStore, Evaluate, For, LetStmt, PrimFunc, Stmt, address_of, walk
from smelt.tir.rewrite import Rewriter, loads
from smelt.tir.script_ops import PARTS

from .c_values import Ranges

RANGES = "ranges"
"""The attribute of a part: the least and the largest value of each scalar parameter."""
SHARES = "shares_memory"
"""The attribute of a program that numbers the parameters which may have memory in common."""


def with_parts(func: PrimFunc) -> list[PrimFunc]:
    """The parts of a program that are functions of their own, and the program that calls them."""
    if not func.attrs.get(PARTS):
        return [func]
    cut = _Cut(func)
    body = cut.stmt(func.body)
    return [*cut.made, func.replace(body=body)]


class _Cut(Rewriter):
    """Calls in place of parts. known: the variables around."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.func, self.made, self.ranges = func, list[PrimFunc](), Ranges()
        self.known: list[Var] = [p for p in func.params if isinstance(p, Var)]

    def visit_For(self, s: For) -> Stmt:
        """A loop, whose variable is known inside."""
        low, high = self.ranges.of(s.min)[0], self.ranges.of(s.min + s.extent)[1] - 1
        return self.inside(s.var, low, max(low, high), s)

    def visit_LetStmt(self, s: LetStmt) -> Stmt:
        """The variable of a part, or another one."""
        if s.var.name in self.func.attrs[PARTS]:
            s = s.replace(body=self.part(s, *self.ranges.of(s.value)))
        ends = self.ranges.of(s.value) if dt.is_int(s.var.type) else dt.limits("int32")
        return self.inside(s.var, *ends, s)

    def inside(self, v: Var, low: int, high: int, s: Stmt) -> Stmt:
        """The parts of a statement that binds a variable."""
        self.ranges.enter(v, low, high)
        self.known.append(v)
        made = self._plain(s)
        self.known.pop()
        return made

    def part(self, s: LetStmt, low: int, high: int) -> Stmt:
        """The call of the function that a part becomes."""
        func, inner = self.func, walk(s.body)
        used = {x.buffer for x in loads(s.body)}
        used |= {x.buffer for x in inner if isinstance(x, BufferStore)}
        places = [n for n, p in enumerate(func.params) if p in used]
        free = free_vars(s.body)
        scalars = [v for v in self.known if v in free] + [s.var]
        ends = [*[self.ranges.of(v) for v in scalars[:-1]], (low, high)]
        name = f"{func.name}_{s.var.name}"
        attrs = {**func.attrs, "name": name, PARTS: (), RANGES: tuple(ends),
                 SHARES: tuple([k for k, n in enumerate(places)
                                if n in func.attrs.get(SHARES, ())])}  # fmt: skip
        buffers = [func.buffers[n] for n in places]
        self.made.append(PrimFunc((*buffers, *scalars), s.body, attrs))
        given = [address_of(b[0]) for b in buffers]
        return Evaluate(Call("int32", "smelt.call_kernel", (StringImm(name), *given, *scalars)))
