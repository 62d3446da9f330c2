"""What a program of the virtual machine takes and gives, as its types say it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from smelt.ir.node import Node
from smelt.ir.types import TensorType, TupleType, Type
from smelt.ir.walk import free_vars
from smelt.relax.nodes import Function
from smelt.relax.shapes import sizes_in
from smelt.runtime.signature import ANY_RANK, TensorInfo
from smelt.runtime.vm_program import Program

from .variants import size_text


def describe(program: Program, main: Function, outputs: Sequence[str]) -> None:
    """Note the inputs and outputs of a program; outputs: their names, numbers without them."""
    sizes = {v for p in main.params for v in sizes_in(p.type)}
    program.inputs = tuple([_described(p.name, p.type, sizes) for p in main.params])
    program.groups = tuple(main.attrs.get("output_groups", ()))
    whole = main.body.type
    program.single = not isinstance(whole, TupleType)
    flat = list(whole.fields) if isinstance(whole, TupleType) else [whole]
    groups = program.groups or (-1,) * len(flat)
    names = outputs or [f"output{n}" for n in range(len(groups))]
    made, at = [], 0
    for name, g in zip(names, groups, strict=True):
        there = g == -1 or g > 0
        one = _described(name, flat[at], sizes) if there else TensorInfo(name, "", ANY_RANK)
        kind = "optional" if g == -2 else "sequence"
        made.append(one if g == -1 else replace(one, shape=ANY_RANK, kind=kind))
        at += 1 if g == -1 else max(g, 0)
    program.outputs = tuple(made)
    program.results = tuple([_described(f"result{n}", t, sizes) for n, t in enumerate(flat)])


def _described(name: str, t: Type, sizes: Set[Node]) -> TensorInfo:
    """A value of a type. Extents that are not known from the sizes get names of their own."""
    if not isinstance(t, TensorType):
        return TensorInfo(name, "", ANY_RANK, "data")
    shape = [
        size_text(e) if free_vars(e) <= sizes else f"{name}_{n}" for n, e in enumerate(t.shape)
    ]
    return TensorInfo(name, t.dtype, tuple(shape))
