"""The memory plan of symbolic sizes."""

from __future__ import annotations

from smelt.artifact.graph import Storage
from smelt.artifact.memory import plan_memory
from smelt.ir.build import value_of
from smelt.ir.expr import Expr, Var, const
from smelt.ir.walk import substitute


def test_a_size_of_0_leaves_room_for_what_has_no_size() -> None:
    """n * 256 bytes are not surely 256."""
    n = Var("n", "int64")
    sizes: tuple[Expr, ...] = (n * 256, const(256))
    storages = [Storage("temporary", "uint8", b, first=k, last=k) for k, b in enumerate(sizes)]
    total = plan_memory(storages, [n]).total
    assert [value_of(substitute(total, {n: const(k)})) for k in (0, 1, 3)] == [256, 256, 768]
