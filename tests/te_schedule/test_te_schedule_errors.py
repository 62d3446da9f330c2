"""The texts of errors: each names the call, what is wrong with it, and what would be legal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from smelt import te
from smelt.ir.errors import SmeltError

from .programs import chain, conv, dense, matmul, outputs, pairs, softmax


class Given:
    """A computation with a schedule; tensors and stages by name."""

    def __init__(self, args: list[Any]) -> None:
        self.args = args
        self.s = te.create_schedule(outputs(args))
        self.t = {t.name: t for x in self.s.stages for t in x.op.outputs}

    def __getitem__(self, name: str) -> te.Stage:
        return self.s[self.t[name]]

    def axis(self, name: str, k: int = 0) -> Any:
        stage = self[name]
        return stage.all_iter_vars[k]

    def lower(self) -> Any:
        return te.lower_schedule(self.s, self.args)


Case = tuple[Callable[[], list[Any]], Callable[[Given], Any]]


def lowered(*steps: Callable[[Given], Any]) -> Callable[[Given], Any]:
    """Steps that are fine by themselves, and then the program."""

    def run(g: Given) -> None:
        for step in steps:
            step(g)
        g.lower()

    return run


def then(*steps: Callable[[Given], Any]) -> Callable[[Given], Any]:
    """Several steps."""

    def run(g: Given) -> None:
        for step in steps:
            step(g)

    return run


def symbolic() -> list[Any]:
    return chain(te.var("m"), te.var("n"))


def split(name: str, k: int = 0, **how: Any) -> Callable[[Given], Any]:
    return lambda g: g[name].split(g.axis(name, k), **how)


def wrong(x: Any) -> Any:
    """Something of a kind that is not expected."""
    return x


THREAD = te.thread_axis("threadIdx.x")
BLOCK = te.thread_axis("blockIdx.x")

CASES: dict[str, Case] = {
    # axes
    "split_consumed": (matmul, then(split("C", factor=4), split("C", factor=2))),
    "split_of_another_stage": (dense, lambda g: g["E"].split(g.axis("C"), factor=4)),
    "split_unknown_axis": (matmul, lambda g: g["C"].split(te.reduce_axis((0, 4), "z"), factor=4)),
    "split_no_axis": (matmul, lambda g: g["C"].split(wrong("i"), factor=4)),
    "split_tensor": (matmul, lambda g: g["C"].split(wrong(g.t["C"]), factor=4)),
    "split_without_factor": (matmul, split("C")),
    "split_with_both": (matmul, split("C", factor=4, nparts=3)),
    "split_zero": (matmul, split("C", factor=0)),
    "split_text": (matmul, split("C", nparts="4")),
    "split_annotated": (matmul, then(lambda g: g["C"].parallel(g.axis("C")), split("C", factor=4))),
    "split_placeholder": (matmul, lambda g: g["A"].split(g.axis("C"), factor=4)),
    "fuse_apart": (matmul, lambda g: g["C"].fuse(g.axis("C", 0), g.axis("C", 2))),
    "reorder_twice": (matmul, lambda g: g["C"].reorder(g.axis("C", 1), g.axis("C", 1))),
    "tile_consumed": (
        matmul,
        then(
            lambda g: g["C"].fuse(g.axis("C", 0), g.axis("C", 1)),
            lambda g: g["C"].tile(g.axis("C", 0), g.axis("C", 1), 4, 4),
        ),
    ),
    # kinds
    "vectorize_reduction": (matmul, lambda g: g["C"].vectorize(g.axis("C", 2))),
    "parallel_reduction": (matmul, lambda g: g["C"].parallel(g.axis("C", 2))),
    "bind_reduction_to_blocks": (matmul, lambda g: g["C"].bind(g.axis("C", 2), BLOCK)),
    "bind_twice": (
        matmul,
        then(lambda g: g["C"].bind(g.axis("C"), THREAD), lambda g: g["C"].bind(g.axis("C"), BLOCK)),
    ),
    "bind_to_an_axis": (matmul, lambda g: g["C"].bind(g.axis("C"), g.axis("C", 1))),
    "bind_to_nothing": (matmul, lambda g: g["C"].bind(g.axis("C"), te.thread_axis("threadIdx.w"))),
    "thread_axis_without_tag": (matmul, lambda g: te.thread_axis((0, 4))),
    "pragma_unknown": (matmul, lambda g: g["C"].pragma(g.axis("C"), "fast")),
    "pragma_foreign": (matmul, lambda g: g["C"].pragma(g.axis("C"), "import_llvm", "...")),
    "pragma_value": (matmul, lambda g: g["C"].pragma(g.axis("C"), "unroll_explicit", [1])),
    # place
    "compute_at_itself": (dense, lambda g: g["C"].compute_at(g["C"], g.axis("C"))),
    "compute_at_a_producer": (dense, lambda g: g["D"].compute_at(g["C"], g.axis("C"))),
    "compute_at_consumed_axis": (
        dense,
        then(split("E", factor=4), lambda g: g["D"].compute_at(g["E"], g.axis("E"))),
    ),
    "compute_at_a_tensor": (dense, lambda g: g["C"].compute_at(wrong(g.t["D"]), g.axis("D"))),
    "compute_at_other_schedule": (
        dense,
        lambda g: g["C"].compute_at(te.create_schedule(g.t["E"].op)[g.t["E"]], g.axis("E")),
    ),
    "compute_at_output": (dense, lambda g: g["E"].compute_at(g["E"], g.axis("E"))),
    "compute_at_placeholder": (dense, lambda g: g["A"].compute_at(g["E"], g.axis("E"))),
    "compute_at_split_later": (
        dense,
        lowered(lambda g: g["D"].compute_at(g["E"], g.axis("E")), split("E", factor=4)),
    ),
    "compute_at_inlined": (
        dense,
        lowered(
            lambda g: g["C"].compute_at(g["D"], g.axis("D")), lambda g: g["D"].compute_inline()
        ),
    ),
    "compute_at_not_all_consumers": (
        softmax,
        lowered(lambda g: g["e"].compute_at(g["total"], g.axis("total"))),
    ),
    "inline_output": (chain, lambda g: g["D"].compute_inline()),
    "inline_reduction": (dense, lambda g: g["C"].compute_inline()),
    "inline_placeholder": (dense, lambda g: g["A"].compute_inline()),
    "inline_parameter": (
        chain,
        then(
            lambda g: g["B"].compute_inline(), lambda g: te.lower_schedule(g.s, [*g.args, g.t["B"]])
        ),
    ),
    # storage
    "set_scope_unknown": (chain, lambda g: g["B"].set_scope("texture")),
    "set_scope_placeholder": (chain, lambda g: g["A"].set_scope("local")),
    "set_scope_parameter": (chain, lowered(lambda g: g["D"].set_scope("local"))),
    "storage_align_axis": (matmul, lambda g: g["C"].storage_align(g.axis("C", 2), 8, 0)),
    "storage_align_factor": (matmul, lambda g: g["C"].storage_align(g.axis("C"), 0, 0)),
    "storage_align_parameter": (chain, lowered(lambda g: g["D"].storage_align(g.axis("D"), 8, 1))),
    "env_threads": (matmul, lambda g: g["C"].env_threads([THREAD])),
    "set_store_predicate": (matmul, lambda g: g["C"].set_store_predicate(THREAD.var < 1)),
    "prefetch_unread": (dense, lambda g: g["E"].prefetch(g.t["A"], g.axis("E"), 1)),
    "prefetch_behind": (matmul, lambda g: g["C"].prefetch(g.t["A"], g.axis("C"), 0)),
    "transform_layout_gaps": (chain, lambda g: g["B"].transform_layout(lambda i, j: (i * 2, j))),
    "transform_layout_indices": (chain, lambda g: g["B"].transform_layout(lambda i: (i,))),
    "transform_layout_separated": (
        chain,
        lambda g: g["B"].transform_layout(lambda i, j: (i, te.AXIS_SEPARATOR, j)),
    ),
    "double_buffer_of_two": (pairs, lambda g: g["P_0"].double_buffer()),
    "transform_layout_after_split": (
        chain,
        then(split("B", factor=2), lambda g: g["B"].transform_layout(lambda i, j: (j, i))),
    ),
    # rewriting
    "cache_read_nobody": (matmul, lambda g: g.s.cache_read(g.t["A"], "local", [])),
    "cache_read_no_reader": (dense, lambda g: g.s.cache_read(g.t["A"], "local", [g.t["E"]])),
    "cache_read_scope": (matmul, lambda g: g.s.cache_read(g.t["A"], "warp", [g.t["C"]])),
    "cache_write_placeholder": (matmul, lambda g: g.s.cache_write(g.t["A"], "local")),
    "cache_write_one_of_two": (pairs, lambda g: g.s.cache_write(g.t["P_0"], "local")),
    "cache_write_joined": (
        matmul,
        then(
            lambda g: g["C"].fuse(g.axis("C", 1), g.axis("C", 2)),
            lambda g: g.s.cache_write(g.t["C"], "local"),
        ),
    ),
    "cache_write_after_layout": (
        chain,
        then(
            lambda g: g["B"].transform_layout(lambda i, j: (j, i)),
            lambda g: g.s.cache_write(g.t["B"], "local"),
        ),
    ),
    "axis_moved_by_cache_write": (
        matmul,
        then(
            lambda g: g.s.cache_write(g.t["C"], "local"),
            lambda g: g["C"].unroll(g.t["C"].op.reduce_axis[0]),
        ),
    ),
    "rfactor_spatial": (matmul, lambda g: g.s.rfactor(g.t["C"], g.axis("C"))),
    "rfactor_no_reduction": (chain, lambda g: g.s.rfactor(g.t["B"], g.axis("B"))),
    "rfactor_place": (matmul, lambda g: g.s.rfactor(g.t["C"], g.axis("C", 2), 3)),
    "rfactor_consumed": (
        matmul,
        then(split("C", 2, factor=4), lambda g: g.s.rfactor(g.t["C"], g.axis("C", 2))),
    ),
    "rfactor_joined": (
        matmul,
        then(
            lambda g: g["C"].fuse(g.axis("C", 1), g.axis("C", 2)),
            lambda g: g.s.rfactor(g.t["C"], g["C"].leaf_iter_vars[1]),
        ),
    ),
    # groups
    "group_no_way": (dense, lambda g: g.s.create_group(g.t["C"], g.t["bias"])),
    "group_of_placeholders": (
        dense,
        lambda g: g.s.create_group(g.t["D"], g.t["bias"], include_inputs=True),
    ),
    "group_split": (
        conv,
        lambda g: g.s.create_group(g.t["conv"], g.t["X"]).split(g.axis("conv"), factor=2),
    ),
    "group_op": (conv, lambda g: g.s.create_group(g.t["conv"], g.t["X"]).op),
    "group_at_a_member": (
        conv,
        lambda g: g.s.create_group(g.t["conv"], g.t["X"]).compute_at(g["conv"], g.axis("conv")),
    ),
    "group_member_outside": (
        conv,
        then(
            lambda g: g.s.create_group(g.t["conv"], g.t["X"]),
            lambda g: g["pad"].compute_at(g["relu"], g.axis("relu")),
        ),
    ),
    "group_crossing": (
        softmax,
        then(
            lambda g: g.s.create_group(g.t["e"], g.t["X"]),
            lambda g: g.s.create_group(g.t["total"], g.t["top"]),
        ),
    ),
    # schedules
    "unknown_stage": (matmul, lambda g: g.s[te.placeholder((4,), name="Z")]),
    "create_schedule": (matmul, lambda g: te.create_schedule(wrong(["C"]))),
    "no_result": (matmul, lambda g: te.lower_schedule(g.s, g.args[:2])),
    "no_tensor": (matmul, lambda g: te.lower_schedule(g.s, [*g.args, wrong(4)])),
    "same_argument": (matmul, lambda g: te.lower_schedule(g.s, [*g.args, g.args[0]])),
    "foreign_result": (matmul, lambda g: te.lower_schedule(g.s, [*g.args, chain()[1]])),
    "unroll_unknown": (symbolic, lowered(lambda g: g["D"].unroll(g.axis("D")))),
    "vectorize_unknown": (symbolic, lowered(lambda g: g["D"].vectorize(g.axis("D")))),
    "vectorize_around_a_stage": (
        lambda: dense(),
        lowered(
            lambda g: g["E"].vectorize(g.axis("E")),
            lambda g: g["D"].compute_inline(),
            lambda g: g.s.cache_read(g.t["bias"], "local", [g["D"].op]),
            lambda g: g.s[g.s.stages[4].op].compute_at(g["E"], g.axis("E")),
        ),
    ),
    "threads": (
        matmul,
        lowered(lambda g: g["C"].bind(g.axis("C"), te.thread_axis((0, 32), "threadIdx.x"))),
    ),
    "threads_twice": (
        matmul,
        lowered(
            lambda g: g["C"].bind(g.axis("C", 0), THREAD),
            lambda g: g["C"].bind(g.axis("C", 1), THREAD),
        ),
    ),
    "no_predicate": (matmul, lowered(split("C", factor=5, disable_predication=True))),
}


@pytest.mark.parametrize("case", CASES)
def test_error(case: str, golden: Callable[[str], None]) -> None:
    args, step = CASES[case]
    g = Given(args())
    with pytest.raises(SmeltError) as raised:
        step(g)
    # the program that primitives show below is theirs to test
    said = str(raised.value).split("\n  @T.prim_func")[0]
    golden(f"{type(raised.value).__name__}: {said}")
