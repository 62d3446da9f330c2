"""What the operators share: checks of shapes and types, broadcasting, wide accumulation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import equal, maximum, minimum, product, select, value_of
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const, convert
from smelt.te.broadcast import at as at
from smelt.te.broadcast import broadcast_shapes as broadcast_shapes
from smelt.te.broadcast import describe as describe
from smelt.te.broadcast import place as place
from smelt.te.broadcast import simple
from smelt.te.broadcast import take_equal as take_equal
from smelt.te.tensor import Tensor, compute, reduce_axis
from smelt.te.tensor import sum as te_sum
from smelt.tir.nodes import IterVar


def tensor(shape: Sequence[ExprLike], body: Callable[..., Any], name: str) -> Tensor:
    """`compute` with one result."""
    made: Tensor = compute(tuple(shape), body, name)
    return made


def require(condition: bool, message: str) -> None:
    """TypeMismatch with this text unless the condition holds; the registry names the operator."""
    if not condition:
        raise TypeMismatch(message)


def named(**operands: Tensor) -> str:
    """Operands with their shapes, for a message: x [2, 3] and w [4]."""
    return " and ".join([f"{name} {describe(t.shape)}" for name, t in operands.items()])


def agree(a: Expr, b: Expr, rule: str) -> Expr:
    """Two extents that have to be equal: the constant one, or the first. Unknown ones may be."""
    va, vb = value_of(a), value_of(b)
    require(va is None or vb is None or va == vb, f"{rule}; got {a} and {b}")
    if va is None or vb is None:
        take_equal(a, b)
    return a if va is not None or vb is None else b


def agree_in_shape(have: Sequence[Expr], want: Sequence[Expr], rule: str) -> None:
    """Shapes that have to be equal."""
    require(len(have) == len(want), rule)
    for d, (a, b) in enumerate(zip(have, want, strict=True)):
        agree(a, b, f"{rule}: dimension {d}")


def at_most(a: Expr, b: Expr, rule: str) -> None:
    """TypeMismatch where extent `a` is larger than `b`. Unknown ones are compared at entry."""
    va, vb = value_of(a), value_of(b)
    require(va is None or vb is None or va <= vb, f"{rule}; got {a} and {b}")
    larger = simple(maximum(a, b))
    if va is None or vb is None:
        take_equal(larger, b)


def lies_over(**shapes: Sequence[Expr]) -> None:
    """TypeMismatch unless the second shape broadcasts to the first one, which stays as it is."""
    (base, shape), (name, own) = shapes.items()
    rule = f"{name} {describe(own)} has to broadcast to {base} {describe(shape)}"
    require(len(own) <= len(shape), rule)
    for have, e in zip(shape, broadcast_shapes(**shapes), strict=True):
        agree(have, e, rule)


def extents(shape: Sequence[ExprLike]) -> tuple[Expr, ...]:
    """Numbers and expressions as index expressions."""
    return tuple([convert(e, INDEX) for e in shape])


def row_major(shape: Sequence[ExprLike], point: Sequence[Expr]) -> Expr:
    """The place of a point in a flat box."""
    flat: Expr = const(0, INDEX)
    for extent, i in zip(shape, point, strict=True):
        flat = flat * extent + i
    return flat


def digits(flat: Expr, shape: Sequence[Expr]) -> list[Expr]:
    """The point of a box at a place in row-major order."""
    point: list[Expr] = []
    for extent in reversed(shape[1:]):
        point.insert(0, flat % extent)
        flat = flat // extent
    return [flat, *point][: len(shape)]


def take_forms(*forms: str, **operands: Tensor | None) -> None:
    """TypeMismatch unless operands, those that are given, have the dimensions of their forms:
    "[n, c, h, w]", "[k, 4]", "[n * 4]". Extents of one name, and products of such, are equal."""
    given = {name: (t, f) for (name, t), f in zip(operands.items(), forms, strict=True)
             if t is not None}  # fmt: skip
    every = named(**{name: t for name, (t, _) in given.items()})
    every += f": {' and '.join([form for _, form in given.values()])}"
    bound: dict[str, Expr] = {}
    for name, (t, form) in given.items():
        rule = f"{named(**{name: t})} {'have' if name.endswith('s') else 'has'} to be {form}"
        sizes = form[1:-1].split(", ") if form != "[]" else []
        require(len(t.shape) == len(sizes), rule)
        for size, e in zip(sizes, t.shape, strict=True):
            if size.isdigit():
                require(value_of(e) in (None, int(size)), rule)
                take_equal(e, const(int(size), INDEX))
                continue
            factors = [const(int(f), INDEX) if f.isdigit() else bound.get(f)
                       for f in size.split(" * ")]  # fmt: skip
            found = [f for f in factors if f is not None]
            if len(found) == len(factors):
                agree(product(found), e, every)
            bound.setdefault(size, e)


def take_matrices(**operands: Tensor) -> None:
    """TypeMismatch unless operands have two dimensions or more."""
    for name, t in operands.items():
        require(len(t.shape) >= 2, f"{named(**{name: t})} needs at least two dimensions")


def take_numbers(whose: str, count: int, least: int | None = None, **attributes: Any) -> None:
    """TypeMismatch unless attributes hold so many numbers, none of them below the least;
    None is a number that is not known."""
    for name, values in attributes.items():
        have = f"{name}={values} has {len(values)} numbers"
        require(len(values) == count, f"{have}; {whose} need {count}")
        low = least is not None and any(v is not None and v < least for v in values)
        require(not low, f"{name}={values}; every number has to be at least {least}")


def take_count(x: Tensor, count: int, **attributes: Sequence[Any]) -> None:
    """TypeMismatch unless attributes hold as many numbers as x needs."""
    for name, values in attributes.items():
        have = f"{name} has {len(values)} numbers"
        require(len(values) == count, f"{have}; {named(x=x)} needs {count}")


def spatial_rank(x: Tensor) -> int:
    """The dimensions of images behind n and c: 1 to 3."""
    rank = len(x.shape) - 2
    require(1 <= rank <= 3, f"{named(x=x)} has to be [n, c, ...] with 1 to 3 dimensions")
    return rank


# ----------------------------------------------------------------------------------- attributes


def one_of(legal: Collection[str], **attributes: str) -> None:
    """TypeMismatch unless texts are among the legal ones."""
    for name, value in attributes.items():
        require(value in legal, f"{name}={value!r}; legal: {', '.join(legal)}")


def known_dtype(dtype: str) -> None:
    """TypeMismatch unless an attribute names an element type."""
    require(
        dtype in dt.DTYPES, f"dtype={dtype!r} is no element type; legal: {', '.join(dt.DTYPES)}"
    )


def at_least(least: int, **attributes: int) -> None:
    """TypeMismatch where a number is smaller."""
    for name, value in attributes.items():
        require(value >= least, f"{name}={value}; it has to be at least {least}")


def take_groups(groups: int, where: str, channels: Expr) -> None:
    """TypeMismatch unless channels can be split into groups; `where` is what the message begins
    with."""
    count = value_of(channels)
    fits = groups >= 1 and (count is None or count % groups == 0)
    require(fits, f"{where}: {count} channels cannot be split into groups={groups}")


# ---------------------------------------------------------------------------------------- types


def same_dtype(**operands: Tensor) -> str:
    """The element type that all operands have."""
    (first, x), *rest = operands.items()
    for name, y in rest:
        require(
            x.dtype == y.dtype,
            f"{first} is {x.dtype} and {name} is {y.dtype}; both need one element type, cast one",
        )
    return x.dtype


def float_only(x: Tensor, name: str = "x") -> None:
    """An operand has to hold floats."""
    require(dt.is_float(x.dtype), f"{name} is {x.dtype}; the operator is defined for floats only")


def dtype_only(dtype: str, **operands: Tensor) -> None:
    """Operands have to hold one type."""
    for name, x in operands.items():
        require(x.dtype == dtype, f"{name} is {x.dtype}; it has to be {dtype}")


def integers_only(**operands: Tensor) -> None:
    """Operands have to hold integers."""
    for name, x in operands.items():
        many = f"{name} are {x.dtype}; they have to be integers"
        one = f"{name} is {x.dtype}; it has to be an integer"
        require(dt.is_int(x.dtype), many if name.endswith("s") else one)


def numbers_only(**operands: Tensor) -> None:
    """Operands have to hold numbers."""
    for name, x in operands.items():
        require(x.dtype != "bool", f"{name} is bool; the operator is defined for numbers, cast it")


def wide(dtype: str) -> str:
    """The type that values of `dtype` are summed in: narrow floats meet in float32."""
    return "float32" if dt.is_float(dtype) and dt.bits(dtype) < 32 else dtype


def product_types(a: Tensor, b: Tensor, names: str, out_dtype: str) -> tuple[str, str]:
    """The types that products of two operands are summed in and stored in.

    names      of the operands, separated by a space
    out_dtype  "" (that of the operands, which have to be equal) or the result's type: for integers
               the operands' own or a wider one, for floats any
    """
    first, second = names.split()
    if not out_dtype:
        same_dtype(**{first: a, second: b})
        return wide(a.dtype), a.dtype
    every = f"'' or one of {', '.join(dt.DTYPES)}"
    require(out_dtype in dt.DTYPES, f"out_dtype={out_dtype!r} is no element type; legal: {every}")
    given = f"{first} is {a.dtype} and {second} is {b.dtype}"
    if dt.is_float(a.dtype) and dt.is_float(b.dtype):
        same_dtype(**{first: a, second: b})
        require(dt.is_float(out_dtype), f"{given}, out_dtype={out_dtype!r}; legal: a float")
        return wide(out_dtype if dt.bits(out_dtype) > dt.bits(a.dtype) else a.dtype), out_dtype
    widest = max(dt.width(a.dtype), dt.width(b.dtype))
    unsigned = {dt.kind(a.dtype), dt.kind(b.dtype)} == {"uint"}
    kinds = ("int", "uint") if unsigned else ("int",)
    legal = [t for t in dt.DTYPES if dt.kind(t) in kinds and dt.width(t) > widest]
    legal += [a.dtype] if a.dtype == b.dtype else []
    integers = dt.is_int(a.dtype) and dt.is_int(b.dtype)
    both = "both operands have to be integers or both floats"
    why = f"legal: {', '.join(legal)}" if integers else both
    require(integers and out_dtype in legal, f"{given}, out_dtype={out_dtype!r}; {why}")
    return out_dtype, out_dtype


def number(value: float | bool, dtype: str) -> Expr:
    """A Python number as a constant of an element type."""
    return const(value if dt.is_float(dtype) else int(value), dtype)


def clamped(v: Expr, low: ExprLike, high: ExprLike) -> Expr:
    """A value held between two others; the lower one wins."""
    return maximum(minimum(v, high), low)


def pick(k: Expr, values: Sequence[Expr]) -> Expr:
    """values[k]; the last one where k is none of the others' numbers."""
    found = values[-1]
    for n, value in reversed(list(enumerate(values[:-1]))):
        found = select(equal(k, n), value, found)
    return found


class Number(Tensor):
    """A number in place of a tensor without dimensions: its element is the constant itself."""

    value: Any = None

    def __getitem__(self, indices: Any) -> Any:
        return self.value


def operand(x: Any, dtype: str) -> Any:
    """What stands for a tensor in a call: a Python number has the other operands' type."""
    if isinstance(x, bool | int | float):
        return Number("number", (), dtype, value=number(x, dtype))
    return x


def stored(x: Tensor, dtype: str, name: str | None = None) -> Tensor:
    """`x` in the element type of the result: itself where it has it already."""
    if x.dtype == dtype:
        return x
    return tensor(x.shape, lambda *i: cast(dtype, x[i]), name or "narrow")


# ------------------------------------------------------------------------------------ dimensions


def axis_of(axis: int, rank: int, name: str = "axis") -> int:
    """A dimension's number counted from the front."""
    require(
        -rank <= axis < rank,
        f"{name}={axis} is no dimension of a tensor with {rank} dimensions; "
        f"legal: {-rank} to {rank - 1}",
    )
    return axis + rank if axis < 0 else axis


def axes_of(axes: Sequence[int] | None, rank: int, name: str = "axes") -> tuple[int, ...]:
    """Dimensions counted from the front, ascending; None means all of them."""
    if axes is None:
        return tuple(range(rank))
    found = sorted([axis_of(a, rank, name) for a in axes])
    require(len(set(found)) == len(found), f"{name}={tuple(axes)} names a dimension twice")
    return tuple(found)


# ------------------------------------------------------------------------------------ reductions


def reduce_axes(x: Tensor, axes: Sequence[int]) -> list[IterVar]:
    """A reduction variable for each of these dimensions."""
    return [reduce_axis((0, x.shape[a]), f"k{a}") for a in axes]


def sum_over(
    shape: Sequence[ExprLike], body: Callable[..., Expr], axes: Sequence[IterVar], name: str
) -> Tensor:
    """The sum of body(*point) over `axes`, accumulated in the wide type (and left in it)."""

    def total(*point: Expr) -> Any:
        e = body(*point)
        return te_sum(cast(wide(e.dtype), e), list(axes))

    return tensor(shape, total, name)
