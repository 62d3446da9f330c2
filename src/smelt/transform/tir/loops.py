"""Passes on loops: vectors, copies, conditions, virtual threads, overlapping iterations."""

from __future__ import annotations

from enum import IntFlag

from smelt.ir.errors import Unsupported
from smelt.ir.transform import PassContext, PassInfo
from smelt.lowering.guards import drop_safe_guards
from smelt.lowering.hoist import hoist
from smelt.lowering.kinds import serialize
from smelt.lowering.lower import unroll_as_asked
from smelt.lowering.overlap import double_buffers, software_pipeline
from smelt.lowering.partition import partition_loops
from smelt.lowering.prefetch import inject_prefetch
from smelt.lowering.safe import require_flat, require_one_dimension
from smelt.lowering.threads import (
    inject_virtual_threads,
    lift_thread_bindings,
    unify_thread_bindings,
)
from smelt.lowering.vectorize import vectorize_loops
from smelt.tir.nodes import PrimFunc

from .function_pass import BuiltIn, PrimFuncPass, built_in, flat


def VectorizeLoop(enable_vectorize: bool = True) -> PrimFuncPass:
    """Vectorized loops become vector loads, arithmetic and stores; a branch becomes a mask.

    A buffer allocated inside gets an element for each lane. That the iterations do not depend on
    each other is what the mark promises.

    enable_vectorize  False: they become serial loops, as with the config "tir.disable_vectorize"

    Needs   buffers of one dimension (FlattenBuffer), a constant extent.
    Before
        def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
            for i in range(4):
                for j in T.vectorized(8):
                    B[i * 8 + j] = A[i * 8 + j] * 2.0
    After
        def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
            for i in range(4):
                B[T.ramp(i * 8, 1, 8)] = A[T.ramp(i * 8, 1, 8)] * T.broadcast(2.0, 8)
    """

    def vectorize(func: PrimFunc, mod: object, context: PassContext) -> PrimFunc:
        if not enable_vectorize or context.setting("tir.disable_vectorize"):
            return serialize(func, "vectorized")
        require_one_dimension(func, "VectorizeLoop")
        return vectorize_loops(func)

    return BuiltIn(vectorize, PassInfo("VectorizeLoop"))


def UnrollLoop() -> PrimFuncPass:
    """Unrolled loops are written out; what is constant then is simplified.

    The config "tir.UnrollLoop" (auto_max_step, auto_max_depth, auto_max_extent, explicit_unroll)
    makes unrolled loops of small serial ones; the annotation "pragma_auto_unroll_max_step" of a
    loop says it for the loops inside.

    Needs   a program without blocks, a constant extent.
    Before
        def main(A: T.Buffer((6,), "float32")):
            for i in range(2):
                for j in T.unroll(3):
                    A[i * 3 + j] = 1.0
    After
        def main(A: T.Buffer((6,), "float32")):
            for i in range(2):
                A[i * 3] = 1.0
                A[i * 3 + 1] = 1.0
                A[i * 3 + 2] = 1.0
    """

    def unroll(func: PrimFunc, mod: object, context: PassContext) -> PrimFunc:
        require_flat(func, "UnrollLoop")
        return unroll_as_asked(func, context)

    return BuiltIn(unroll, PassInfo("UnrollLoop"))


def LoopPartition() -> PrimFuncPass:
    """The middle of a tiled loop runs without the conditions of its edges.

    A loop around vectorized or unrolled ones gets a branch: the body without conditions where they
    hold, copies of it for the edges. It stays one loop, so it may be a parallel one.

    Needs   a program without blocks.
    Before
        def main(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
            for i in range(3):
                for j in T.vectorized(4):
                    if i * 4 + j < 10:
                        B[i * 4 + j] = A[i * 4 + j]
    After
        def main(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
            for i in range(3):
                if i >= 0 and i < 2:
                    for j in T.vectorized(4):
                        B[i * 4 + j] = A[i * 4 + j]
                else:
                    for j in T.vectorized(4):
                        if j < 2:
                            B[j + 8] = A[j + 8]
    """
    return flat("LoopPartition", partition_loops)


def ConvertForLoopsToSerial() -> PrimFuncPass:
    """Parallel loops become serial ones.

    Before
        def main(A: T.Buffer((4,), "float32")):
            for i in T.parallel(4):
                A[i] = 1.0
    After
        def main(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = 1.0
    """
    return built_in("ConvertForLoopsToSerial", serialize, "parallel")


# --------------------------------------------------------------------------------- conditions


class HoistedConditionals(IntFlag):
    """What the config "tir.HoistExpression" can say in hoisted_conditionals."""

    Never = 0
    IfElseStmt = 1
    IfElseExpr = 2
    All = 3


class HoistedLetBindings(IntFlag):
    """What the config "tir.HoistExpression" can say in hoisted_let_bindings."""

    Never = 0
    LetStmt = 2
    All = 2


def HoistIfThenElse(variant: str | None = None) -> PrimFuncPass:
    """Branches that a loop does not change move out of it: one loop for each outcome.

    Conditions that load, or may be undefined, stay. At most four conditions leave one loop.

    variant  None: the other statements of the loop stand in both copies;
             "basic": only a branch that is all of a loop's body moves

    Needs   a program without blocks.
    Before
        def main(A: T.Buffer((8,), "float32"), n: T.int64):
            for i in range(8):
                A[i] = 1.0
                if n > 4:
                    A[i] = 2.0
    After
        def main(A: T.Buffer((8,), "float32"), n: T.int64):
            if n > 4:
                for i in range(8):
                    A[i] = 1.0
                    A[i] = 2.0
            else:
                for i in range(8):
                    A[i] = 1.0
    """
    if variant not in (None, "basic"):
        raise Unsupported(f'HoistIfThenElse(variant={variant!r}): legal: None, "basic"')
    return built_in(
        "HoistIfThenElse",
        hoist,
        branches=True,
        choices=False,
        bindings=False,
        anywhere=variant is None,
    )


def HoistExpression() -> PrimFuncPass:
    """Branches, choices between values, and bindings that a loop does not change move out of it.

    The config "tir.HoistExpression" says which: hoisted_conditionals is a sum of
    HoistedConditionals, hoisted_let_bindings one of HoistedLetBindings.

    Needs   a program without blocks.
    Before
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int64):
            for i in range(8):
                m: T.int64 = n * 3
                B[i] = T.if_then_else(m > 4, A[i], 0.0)
    After
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int64):
            m: T.int64 = n * 3
            if m > 4:
                for i in range(8):
                    B[i] = A[i]
            else:
                for i in range(8):
                    B[i] = 0.0
    """

    def run(func: PrimFunc, mod: object, context: PassContext) -> PrimFunc:
        config = context.setting("tir.HoistExpression")
        conditions = HoistedConditionals(config["hoisted_conditionals"])
        lets = HoistedLetBindings(config["hoisted_let_bindings"])
        return hoist(
            func,
            branches=bool(conditions & HoistedConditionals.IfElseStmt),
            choices=bool(conditions & HoistedConditionals.IfElseExpr),
            bindings=bool(lets & HoistedLetBindings.LetStmt),
        )

    return BuiltIn(run, PassInfo("HoistExpression"))


def ReduceBranchingThroughOvercompute() -> PrimFuncPass:
    """The guard of a ragged tile in registers goes: elements that nobody uses may be computed.

    Only where what the guarded statement loads is proved to be in bounds without the guard.

    Needs   a program without blocks.
    Before
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((6,), "float32")):
            acc = T.allocate((8,), "float32", scope="local")
            for i in range(8):
                if i < 6:
                    acc[i] = A[i] * 2.0
            for j in range(6):
                B[j] = acc[j]
    After
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((6,), "float32")):
            acc = T.allocate((8,), "float32", scope="local")
            for i in range(8):
                acc[i] = A[i] * 2.0
            for j in range(6):
                B[j] = acc[j]
    """
    return flat("ReduceBranchingThroughOvercompute", drop_safe_guards)


# ------------------------------------------------------------------------------------ threads


def UnifyThreadBinding() -> PrimFuncPass:
    """All loops of a thread axis run over one variable; different extents are refused.

    Before
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                A[i] = 1.0
            for j in T.thread_binding(8, thread="threadIdx.x"):
                B[j] = 2.0
    After
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                A[i] = 1.0
            for i in T.thread_binding(8, thread="threadIdx.x"):
                B[i] = 2.0
    """
    return built_in("UnifyThreadBinding", unify_thread_bindings)


def LiftThreadBinding() -> PrimFuncPass:
    """Several loops of one thread axis become one around the statement that holds them all.

    Refused where it is not proved that no thread touches there what another one writes.

    Needs   a program without blocks.
    Before
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                A[i] = 1.0
            for j in T.thread_binding(8, thread="threadIdx.x"):
                B[j] = A[j] + 2.0
    After
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                A[i] = 1.0
                B[i] = A[i] + 2.0
    """
    return built_in("LiftThreadBinding", lift_thread_bindings)


def InjectVirtualThread() -> PrimFuncPass:
    """Loops over virtual threads move inwards, so that the threads share the loops inside.

    Each thread gets its own part of the buffers allocated inside. Up to 16 threads are marked to
    be unrolled.

    Needs   buffers of one dimension (FlattenBuffer), a constant extent.
    Before
        def main(A: T.Buffer((8,), "float32")):
            for v in T.thread_binding(2, thread="vthread"):
                B = T.allocate((4,), "float32")
                for i in range(4):
                    B[i] = 1.0
                    A[v * 4 + i] = B[i]
    After
        def main(A: T.Buffer((8,), "float32")):
            B = T.allocate((8,), "float32")
            for i in range(4):
                for v in T.unroll(2):
                    B[i + v * 4] = 1.0
                for v in T.unroll(2):
                    A[v * 4 + i] = B[i + v * 4]
    """
    return built_in("InjectVirtualThread", inject_virtual_threads)


# ----------------------------------------------------------------------- overlapping iterations


def InjectPrefetch() -> PrimFuncPass:
    """Loops ask for the elements that an annotated loop comes to some iterations later.

    The annotation "prefetch" of a loop says how many, by buffer. A line of memory is asked for
    once, in the innermost loops; results stay.

    Needs   buffers of one dimension (FlattenBuffer).
    Before
        def main(A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32")):
            for i in T.serial(8, annotations={"prefetch": {"A": 2}}):
                for k in range(8):
                    B[i] = B[i] + A[k * 8 + i]
    After
        def main(A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                for k in range(8):
                    T.evaluate(T.call("int32", "prefetch", T.address_of(A[k * 8 + (i + 2)])))
                    B[i] = B[i] + A[k * 8 + i]
    """

    def inject(func: PrimFunc, mod: object, context: PassContext) -> PrimFunc:
        require_one_dimension(func, "InjectPrefetch")
        return inject_prefetch(func)

    return BuiltIn(inject, PassInfo("InjectPrefetch"))


def InjectDoubleBuffer() -> PrimFuncPass:
    """A buffer marked with "double_buffer_scope" is filled for the next iteration meanwhile.

    The loop's first statements, which write nothing but marked buffers, run one iteration early. In
    a block program, the annotation of the writing block is the number of the buffer it writes.

    Needs   a program without blocks; proof that no statement misses what another one writes.
    Before
        def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
            for i in range(4):
                B = T.allocate((8,), "float32", annotations={"double_buffer_scope": 1})
                for j in range(8):
                    B[j] = A[i, j]
                C[i] = B[0] + B[7]
    After
        def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
            B = T.allocate((16,), "float32")
            for j in range(8):
                B[j] = A[0, j]
            for i in range(1, 4):
                for j in range(8):
                    B[j + i % 2 * 8] = A[i, j]
                C[i - 1] = B[(i - 1) % 2 * 8] + B[7 + (i - 1) % 2 * 8]
            C[3] = B[8] + B[15]
    """
    return built_in("InjectDoubleBuffer", double_buffers)


def InjectSoftwarePipeline() -> PrimFuncPass:
    """The statements of a loop run in different iterations at one time.

    The loop's annotation "software_pipeline_stage" gives a number of iterations for each statement
    of its body that it runs later; "software_pipeline_order" their order in the new body. Buffers
    allocated in the body get as many copies as iterations are under way.

    Needs   a program without blocks; proof that no statement misses what another one writes.
    Before
        def main(A: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
            for i in T.serial(5, annotations={"software_pipeline_stage": [0, 1]}):
                B = T.allocate((1,), "float32")
                B[0] = A[i] * 2.0
                C[i] = B[0] + 1.0
    After
        def main(A: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
            B = T.allocate((2,), "float32")
            B[0] = A[0] * 2.0
            for i in range(1, 5):
                B[i % 2] = A[i] * 2.0
                C[i - 1] = B[(i - 1) % 2] + 1.0
            C[4] = B[0] + 1.0
    """
    return built_in("InjectSoftwarePipeline", software_pipeline)
