"""Primitives about layouts: of buffers, and of the iterations of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.ir.build import all_of, equal, if_then_else, is_const, logical_not, product, value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, Var, cast, const, convert
from smelt.ir.walk import free_vars, substitute
from smelt.tir.regions import full
from smelt.tir.rewrite import Indices, Rewriter

from .. import nodes
from .cache import buffer_at
from .exchange import Relayout, replace_buffer, stored, transform_accesses
from .loops import sequence
from .maps import IndexFunction, Mapped, read_map
from .primitive import Base, primitive
from .region import inverted, refreshed
from .state import Relaid, State
from .trace_text import expr_text, formula


class LayoutPrimitives(Base):
    """transform_layout, transform_block_layout, set_axis_separator."""

    @primitive
    def transform_layout(
        self,
        block: str,
        buffer: tuple[str, int] | str | nodes.Buffer,
        index_map: IndexFunction,
        pad_value: ExprLike | str | Callable[..., ExprLike] | None = None,
        assume_injective_transform: bool = False,
    ) -> None:
        """Store a buffer, a parameter too, in another physical order.

        buffer     ("read", i), ("write", i), or the buffer or its name
        index_map  from the old indices to the new ones; AXIS_SEPARATOR may stand between these
        pad_value  what the padding holds where the new shape has more elements (a value, or a
                   function of the new indices): written behind the buffer's writer, and promised
                   of a parameter that is only read; "undef" where nobody looks at it
        assume_injective_transform  the caller answers for different elements' different places

        Before
            for i in range(16):
                with T.block("B"):
                    v = T.axis.spatial(16, i)
                    B[v] = A[v] + 1.0
        Step    transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4))
        After
            for i in range(16):
                with T.block("B"):
                    v = T.axis.spatial(16, i)
                    B[v // 4, v % 4] = A[v] + 1.0
        Needs   a map that gives different elements different places, shown by mixed radices.
        """
        s, b = self._at(block)
        if isinstance(pad_value, str) and pad_value != "undef":
            s.fail(
                f"pad_value is {pad_value!r}",
                legal='a number, an expression, a function of the new indices, "undef"',
            )
        old = named_buffer(s, b, buffer)
        layout = read_map(s, index_map, old.shape)
        if old.strides and old in s.func.buffers:
            s.fail(
                f"{old.name} is a parameter with strides: where its elements stand is settled",
                legal="a parameter without strides, or a buffer of the program's own",
            )
        what, padded = f"buffer {old.name}", pad_value is not None
        shape = layout.image(s, what, None, padded, assume_injective_transform)
        new = nodes.Buffer(old.name, shape, old.type, old.scope, axis_separators=layout.separators)
        filling = _padding_value(s, b, pad_value, new)
        padded = not s.facts.equal(product(shape), product(old.shape))
        writers = s.writers(s.scope(b), old)

        def moved(at: Indices) -> Indices:
            return tuple([s.facts.simplify(e) for e in layout.at(at)])

        transform_accesses(s, old, new, Relayout(old, new, moved))
        if new in s.func.params:
            _note_relaid(s, old, new, layout, filling)
        if padded and writers and filling is not None:
            last = max((s.realize(w.block.name) for w in writers), key=lambda w: s.index.order[w])
            _fill_padding(s, last, old, new, layout, filling)

    @primitive
    def transform_block_layout(self, block: str, index_map: IndexFunction) -> None:
        """Let a block, and the loops around it, run over other variables.

        Before
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + 1.0
        Step    transform_block_layout("B", lambda i, j: (i * 6 + j,))
        After
            for ax0 in range(24):
                with T.block("B"):
                    v0 = T.axis.spatial(24, ax0)
                    B[v0 // 6, v0 % 6] = A[v0 // 6, v0 % 6] + 1.0
        Needs   a block alone in its loops, each of which is one of its variables; an index map that
                can be inverted and covers its image, without mixing spatial and reduce variables.
        """
        s, b = self._at(block)
        outer = own_loops(s, b)
        extents = [i.dom.extent for i in b.block.iter_vars]
        layout = read_map(s, index_map, extents)
        if layout.separators:
            s.fail(
                "the variables of a block have no AXIS_SEPARATOR between them",
                legal="a map to indices only",
            )
        shape = layout.image(s, f"block {b.block.name}")
        s.demand(
            equal(product(shape), product(extents)),
            "the index map leaves gaps: it gives more iterations than there are",
            "the index map leaves no gaps",
            legal="a map onto as many values",
        )
        own = layout.at([i.var - i.dom.min for i in b.block.iter_vars])
        kinds = [_one_kind(s, b, e) for e in own]
        new = [
            nodes.IterVar(s.new_var(f"v{k}", 0, e), nodes.Range(const(0, INDEX), e), kind)
            for k, (e, kind) in enumerate(zip(shape, kinds, strict=True))
        ]
        values = _inverted(s, b, own, new)
        moved = Substituted(s, values).visit_Block(b.block.replace(iter_vars=tuple(new)))
        inner = refreshed(s, moved)
        s.replace({outer: s.block_nest(inner)})

    @primitive
    def set_axis_separator(
        self,
        block: str,
        buffer: tuple[str, int] | str | nodes.Buffer,
        axis_separators: Sequence[int] | None = None,
    ) -> None:
        """Say where memory of several dimensions (a texture) cuts a buffer's shape.

        axis_separators  positions between dimensions, ascending; None or [] for flat memory

        Before
            B = T.alloc_buffer((4, 6))
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + 1.0
            for i_1, j_1 in T.grid(4, 6):
                with T.block("C"):
                    v_1, w_1 = T.axis.remap("SS", [i_1, j_1])
                    C[v_1, w_1] = B[v_1, w_1] * 2.0
        Step    set_axis_separator("B", ("write", 0), [1])
        After
            B = T.alloc_buffer((4, 6), axis_separators=[1])
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + 1.0
            for i_1, j_1 in T.grid(4, 6):
                with T.block("C"):
                    v_1, w_1 = T.axis.remap("SS", [i_1, j_1])
                    C[v_1, w_1] = B[v_1, w_1] * 2.0
        Needs   a buffer that the block uses, positions from 1 to its last dimension.
        """
        s, b = self._at(block)
        old = named_buffer(s, b, buffer)
        cuts = sequence(s, "axis_separators", axis_separators or [], "a list of positions")
        if cuts != sorted(set(cuts)) or not all(0 < int(c) < old.rank for c in cuts):
            s.fail(
                f"{cuts} are no places between the {old.rank} dimensions of {old.name}",
                mark={b: f"uses {old.name}"},
                legal=f"ascending numbers from 1 to {old.rank - 1}"
                if old.rank > 1
                else "none: it has one dimension",
            )
        separators = tuple([int(c) for c in cuts])
        if separators != old.axis_separators:
            replace_buffer(s, old, old.replace(axis_separators=separators))


def _padding_value(
    s: State,
    b: nodes.BlockRealize,
    pad_value: ExprLike | str | Callable[..., ExprLike] | None,
    new: nodes.Buffer,
) -> Callable[[Sequence[Expr]], Expr] | None:
    """How padding is filled, from the new indices; None where nobody looks at it."""
    if pad_value is None or isinstance(pad_value, str):
        return None
    if not callable(pad_value):
        fixed = convert(pad_value, new.type)
        return lambda _: fixed
    variables = [Var(f"i{k}") for k in range(new.rank)]
    try:
        value = convert(pad_value(*variables))
    except TypeError as e:
        s.fail(
            f"pad_value does not take the {new.rank} new indices: {e}",
            legal=f"a value, or a function of {new.rank} indices",
        )
    text = f"lambda {', '.join(v.name for v in variables)}: {expr_text(value)}"
    s.call.args["pad_value"] = formula(text)
    return lambda at: cast(new.type, substitute(value, dict(zip(variables, at, strict=True))))


# ------------------------------------------------------------------------------------ index maps


class Substituted(Rewriter):
    """Puts expressions in the place of variables; indices that were made of them are simplified:
    v // 6 * 6 + v % 6 is v again."""

    def __init__(self, state: State, values: dict[Var, Expr]) -> None:
        super().__init__(values)
        self.facts = state.facts

    def access(self, b: nodes.Buffer, indices: Indices) -> tuple[nodes.Buffer, Indices]:
        """The access with simple indices."""
        return self.buffer(b), tuple([self.facts.simplify(i) for i in indices])


def _inverted(
    s: State, b: nodes.BlockRealize, own: Sequence[Expr], new: Sequence[nodes.IterVar]
) -> dict[Var, Expr]:
    """A block's variables in terms of the new ones that are functions of them."""
    found = inverted(s.facts, own, [i.var for i in new], b.block.iter_vars)
    for i in b.block.iter_vars:
        if i.var not in found:
            s.cannot_prove(
                "the index map can be inverted",
                mark={b: f"{i.var.name} is not determined"},
                legal="a map from whose results each variable follows",
            )
    return found


def _one_kind(s: State, b: nodes.BlockRealize, e: Expr) -> str:
    kinds = {i.kind for i in b.block.iter_vars if i.var in free_vars(e)}
    if len(kinds) > 1:
        s.fail(
            f"the index map mixes {' and '.join(sorted(kinds))} variables of {b.block.name}",
            legal="results over variables of one kind each",
        )
    return kinds.pop() if kinds else "spatial"


# --------------------------------------------------------------------------------------- buffers


def named_buffer(
    s: State, b: nodes.BlockRealize, buffer: tuple[str, int] | str | nodes.Buffer
) -> nodes.Buffer:
    """A buffer given by kind and position, by name, or as itself."""
    found = {r.buffer.name: r.buffer for r in (*b.block.reads, *b.block.writes)}
    if isinstance(buffer, nodes.Buffer):
        buffer = buffer.name
    if isinstance(buffer, str):
        if buffer not in found:
            s.fail(f"{b.block.name} does not use {buffer!r}", legal=", ".join(found))
        return found[buffer]
    pair = list(buffer) if isinstance(buffer, tuple | list) else []
    good = len(pair) == 2 and pair[0] in ("read", "write") and isinstance(pair[1], int)
    if not good:
        s.fail(f"{buffer!r} is no buffer of a block", legal='("read", i), ("write", i) or a name')
    return buffer_at(s, b, str(pair[0]), int(str(pair[1])))


def _note_relaid(
    s: State,
    old: nodes.Buffer,
    new: nodes.Buffer,
    layout: Mapped,
    filling: Callable[[Sequence[Expr]], Expr] | None,
) -> None:
    """Remember what a parameter holds in its new layout; padding of which nothing is said holds 0.

    A parameter that had another layout already is followed back to the one it was given in.
    """
    at = tuple([Var(f"i{k}") for k in range(new.rank)])
    for v, e in zip(at, new.shape, strict=True):
        s.facts.bind(v, const(0, INDEX), e)
    origin = _origin(s, layout, at)
    before = s.relaid.get(old.name)
    given = old if before is None else before.given
    value: Expr | None = None
    if origin is not None:
        back = [equal(a, b) for a, b in zip(layout.at(origin), at, strict=True)]
        inside = s.facts.conjunction(*_inside(s, origin, old), *map(s.facts.simplify, back))
        if before is None:
            value = nodes.BufferLoad(old, origin)
        elif before.value is not None:
            value = substitute(before.value, dict(zip(before.at, origin, strict=True)))
        if value is not None:
            padding = const(0, new.type) if filling is None else filling(at)
            value = if_then_else(inside, value, padding)
    s.relaid = {**s.relaid, old.name: Relaid(given, at, value)}


def _origin(s: State, layout: Mapped, at: Indices) -> Indices | None:
    """The old indices of what stands at new ones; None where the map cannot be inverted."""
    found = inverted(s.facts, layout.results, at, layout.iters)
    return tuple([found[v] for v in layout.variables]) if len(found) == len(layout.iters) else None


def _inside(s: State, origin: Indices, old: nodes.Buffer) -> list[Expr]:
    """What makes indices those of an element, as far as it is not certain."""
    inside = [i < n for i, n in zip(origin, old.shape, strict=True)]
    return [s.facts.simplify(c) for c in inside if not s.facts.prove(c)]


def _fill_padding(
    s: State,
    writer: nodes.BlockRealize,
    old: nodes.Buffer,
    new: nodes.Buffer,
    layout: Mapped,
    filling: Callable[[Sequence[Expr]], Expr],
) -> None:
    """Write the padding behind the nest that writes the buffer."""

    def outside(point: Indices) -> Expr:
        origin = _origin(s, layout, point)
        if origin is None:
            s.cannot_prove(
                f"the index map of {old.name} can be inverted, to find its padding",
                mark={writer: f"writes {old.name}"},
                legal="no pad_value",
            )
        return logical_not(all_of(_inside(s, origin, old)))

    def fill(point: Indices) -> nodes.BufferStore:
        return nodes.BufferStore(new, filling(point), point)

    _, nest = stored(s, f"{old.name}_padding", full(new).region, fill, outside)
    place = s.top(writer, s.scope(writer).block)
    s.replace({place: lambda x: nodes.seq(x, nest)})


def own_loops(s: State, b: nodes.BlockRealize) -> nodes.Stmt:
    """The outermost statement of a block's own nest: loops that are its variables, one by one."""
    loops = s.loops_above(b)
    wanted = list(b.values)
    node: nodes.Stmt = b
    for x in reversed(loops):
        if x.body is not node or x.var not in wanted:
            break
        wanted.remove(x.var)
        node = x
    rest = [v for v in wanted if value_of(v) is None]
    around = {x.var: x for x in loops}
    for i, v in b.bindings:
        loop = around.get(v) if isinstance(v, Var) else None
        if loop is None:
            if not (is_const(i.dom.extent, 1) and s.facts.equal(v, i.dom.min)):
                rest.append(v)
            continue
        s.demand(
            all_of(equal(loop.min, i.dom.min), equal(loop.extent, i.dom.extent)),
            f"{loop.var.name} does not run over the whole domain of {i.var.name}",
            f"{loop.var.name} runs over the whole domain of {i.var.name}",
            mark={loop: "loop", b: f"binds {i.var.name}"},
            legal="a block as te makes it, before its loops are changed",
        )
    if rest or not is_const(b.predicate):
        s.fail(
            f"{b.block.name} does not stand alone in loops that are its variables one by one",
            legal="a block as te makes it, before its loops are changed",
        )
    return node
