"""Passes on expressions and single statements."""

from __future__ import annotations

from smelt.ir.errors import Unsupported
from smelt.lowering.check_bounds import check_bounds
from smelt.lowering.common import eliminate_common_subexpressions
from smelt.lowering.finish import finish
from smelt.lowering.legalize import BFLOAT16, FLOAT8, legalize_compute, legalize_storage
from smelt.lowering.narrow import force_int32_indices, narrow_indices
from smelt.lowering.remove import remove_assume, remove_no_op, skip_asserts
from smelt.lowering.renormalize import renormalize
from smelt.lowering.select import rewrite_unsafe_select
from smelt.lowering.share import share_storage
from smelt.lowering.simplify import simplify
from smelt.lowering.unique import bind_once
from smelt.tir.nodes import PrimFunc

from .blocks import unchanged
from .function_pass import PrimFuncPass, built_in, flat


def Simplify() -> PrimFuncPass:
    """Expressions and statements under what the loops and branches around them say.

    Loops of one iteration, decided branches and what does nothing go.

    Before
        def main(A: T.Buffer((8,), "float32")):
            for i in range(8):
                for j in range(1):
                    if i + j < 8:
                        A[(i * 4 + j + 3) // 4] = 1.0
    After
        def main(A: T.Buffer((8,), "float32")):
            for i in range(8):
                A[i] = 1.0
    """
    return built_in("Simplify", simplify)


def RenormalizeSplitPattern() -> PrimFuncPass:
    """Indices of split and fused loops in normal form; statements stay as they are.

    Before
        def main(A: T.Buffer((4, 8), "float32")):
            for i in range(32):
                A[i % 32 // 8, i % 16 % 8] = 1.0
    After
        def main(A: T.Buffer((4, 8), "float32")):
            for i in range(32):
                A[i // 8, i % 8] = 1.0
    """
    return built_in("RenormalizeSplitPattern", renormalize)


def RemoveNoOp() -> PrimFuncPass:
    """Loops, branches, bindings, buffers and stores that do nothing go.

    Before
        def main(A: T.Buffer((8,), "float32"), n: T.int64):
            B = T.allocate((8,), "float32")
            for i in range(8):
                m: T.int64 = n + 1
                if n > 4:
                    A[i] = A[i]
                else:
                    A[i] = 1.0
    After
        def main(A: T.Buffer((8,), "float32"), n: T.int64):
            for i in range(8):
                if n <= 4:
                    A[i] = 1.0
    """
    return built_in("RemoveNoOp", remove_no_op)


def RemoveAssume() -> PrimFuncPass:
    """What T.assume states goes.

    Before
        def main(A: T.Buffer((8,), "float32"), n: T.int64):
            T.evaluate(T.assume(n > 0))
            A[0] = 1.0
    After
        def main(A: T.Buffer((8,), "float32"), n: T.int64):
            A[0] = 1.0
    """
    return built_in("RemoveAssume", remove_assume)


def RemoveStoreUndef() -> PrimFuncPass:
    """Nothing to do: no expression stands for an undefined value, so none is stored."""
    return built_in("RemoveStoreUndef", unchanged)


def SkipAssert() -> PrimFuncPass:
    """Checks go.

    Before
        def main(A: T.Buffer((8,), "float32"), n: T.int64):
            assert n > 0, "n is positive"
            A[0] = 1.0
    After
        def main(A: T.Buffer((8,), "float32"), n: T.int64):
            A[0] = 1.0
    """
    return built_in("SkipAssert", skip_asserts)


def InstrumentBoundCheckers() -> PrimFuncPass:
    """Every index that is not proved to be in bounds is checked before the access.

    Needs   no vector indices but ramps (it runs before VectorizeLoop).
    Before
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int64):
            for i in range(8):
                B[i] = A[i + n]
    After
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int64):
            for i in range(8):
                assert i + n >= 0 and i + n < 8, "the index of A[i + n] is not in 0 ... 8 - 1"
                B[i] = A[i + n]
    """
    return built_in("InstrumentBoundCheckers", check_bounds)


def ConvertSSA() -> PrimFuncPass:
    """A variable or buffer object that is bound in two places gets a new object in the second.

    Programs made here bind once from the start; those built by hand may not. Texts do not show
    it: names are unique in them.
    """
    return built_in("ConvertSSA", bind_once)


def CommonSubexprElimTIR(
    enable_cse_tir: bool = True, identify_equiv_terms: bool = False
) -> PrimFuncPass:
    """What is computed more than once gets a name before its first use.

    Only scalars that nothing can make fail: loads and divisions by variables stay where they are.
    The code generator computes such values once anyway.

    enable_cse_tir        False: nothing happens
    identify_equiv_terms  simplify expressions first, so that i + 1 + i is 2 * i + 1

    Needs   a program without blocks.
    Before
        def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int64):
            for i in range(8):
                B[i * 8 + n] = A[i * 8 + n] * 2.0
    After
        def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int64):
            for i in range(8):
                cse_var_1: T.int64 = i * 8 + n
                B[cse_var_1] = A[cse_var_1] * 2.0
    """

    def run(func: PrimFunc) -> PrimFunc:
        return eliminate_common_subexpressions(renormalize(func) if identify_equiv_terms else func)

    return built_in("CommonSubexprElimTIR", run if enable_cse_tir else unchanged)


def RewriteUnsafeSelect() -> PrimFuncPass:
    """A select whose values may not both be computed becomes an if_then_else.

    Unsafe is a load that is not proved to be in bounds, and a division by what may be zero.

    Before
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                B[i] = T.select(i >= 1, A[i - 1], 0.0) + T.select(i >= 4, A[i], 1.0)
    After
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                B[i] = T.if_then_else(i >= 1, A[i - 1], 0.0) + T.select(i >= 4, A[i], 1.0)
    """
    return built_in("RewriteUnsafeSelect", rewrite_unsafe_select)


def LowerIntrin() -> PrimFuncPass:
    """What processors have instructions for: fused multiply-adds, divisions that round to zero.

    A sum with a product is rounded once instead of twice. Floor divisions become the processor's
    own where nothing is negative.

    Before
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                B[i] = A[i // 2] * 2.0 + B[i]
    After
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                B[i] = T.fma(A[T.truncdiv(i, 2)], 2.0, B[i])
    """
    return flat("LowerIntrin", finish)


def StorageRewrite() -> PrimFuncPass:
    """Buffers that are never alive together use the same memory.

    Those of constant size and of one type and scope share. Their allocations move to the
    beginning of the function, or of the body of the parallel loop around.

    Needs   buffers of one dimension (FlattenBuffer).
    Before
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            C = T.allocate((8,), "float32")
            for i in range(8):
                C[i] = A[i] + 1.0
            for i in range(8):
                B[i] = C[7 - i]
            D = T.allocate((4,), "float32")
            for i in range(4):
                D[i] = B[i] * 2.0
            for i in range(4):
                B[i] = D[3 - i]
    After
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            C = T.allocate((8,), "float32")
            for i in range(8):
                C[i] = A[i] + 1.0
            for i in range(8):
                B[i] = C[7 - i]
            for i in range(4):
                C[i] = B[i] * 2.0
            for i in range(4):
                B[i] = C[3 - i]
    """
    return built_in("StorageRewrite", share_storage)


def PointerValueTypeRewrite() -> PrimFuncPass:
    """Nothing to do: pointers have no element type; a vector access says its own."""
    return built_in("PointerValueTypeRewrite", unchanged)


# ---------------------------------------------------------------------------------- data types


def NarrowDataType(target_bits: int) -> PrimFuncPass:
    """Loops and indices that certainly fit compute in `target_bits` bits: 32, or 64 as before.

    A size known at run time keeps 64 bits, and so does what depends on it.

    Needs   a program without blocks.
    Pass    NarrowDataType(32)
    Before
        def main(A: T.Buffer((4, 8), "float32"), n: T.int64):
            for i in range(4):
                for j in range(n):
                    A[i * 2 % 4, j % 8] = T.cast("float32", i)
    After
        def main(A: T.Buffer((4, 8), "float32"), n: T.int64):
            for i in T.serial(T.int32(4)):
                for j in range(n):
                    A[i * T.int32(2) % T.int32(4), j % 8] = T.cast("float32", T.cast("int64", i))
    """
    return built_in("NarrowDataType", narrow_indices, target_bits)


def ForceNarrowIndexToInt32() -> PrimFuncPass:
    """All loops, indices, extents and sizes in 32 bits, which the caller promises to be enough.

    Scalar parameters become int32; elements of 64 bits stay. What certainly does not fit is
    refused.

    Before
        def main(A: T.Buffer((8,), "float32"), n: T.int64):
            for j in range(n):
                A[j % 8] = 1.0
    After
        def main(A: T.Buffer((T.int32(8),), "float32"), n: T.int32):
            for j in range(n):
                A[j % T.int32(8)] = 1.0
    """
    return built_in("ForceNarrowIndexToInt32", force_int32_indices)


def BF16ComputeLegalize(promote_dtype_str: str = "float32") -> PrimFuncPass:
    """Arithmetic on bfloat16 as arithmetic on float32 (or float64), rounded after every operation.

    Before
        def main(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "bfloat16")):
            for i in range(8):
                B[i] = A[i] * T.bfloat16(0.5)
    After
        def main(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "bfloat16")):
            for i in range(8):
                B[i] = T.cast("bfloat16", T.cast("float32", A[i]) * 0.5)
    """
    return _compute("BF16ComputeLegalize", BFLOAT16, promote_dtype_str, ("float32", "float64"))


def BF16StorageLegalize() -> PrimFuncPass:
    """bfloat16 in buffers and variables as uint16, parameters included.

    Needs   BF16ComputeLegalize before it.
    Before
        def main(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                B[i] = T.cast("float32", A[i])
    After
        def main(A: T.Buffer((8,), "uint16"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                B[i] = T.call("float32", "reinterpret",
                              T.shift_left(T.cast("uint32", A[i]), T.uint32(16)))
    """
    return built_in("BF16StorageLegalize", legalize_storage, BFLOAT16, "BF16StorageLegalize")


def FP8ComputeLegalize(promote_dtype_str: str = "float16") -> PrimFuncPass:
    """Arithmetic on 8-bit floats as arithmetic on float16 (or float32), rounded each time.

    Before
        def main(A: T.Buffer((8,), "float8_e5m2")):
            for i in range(8):
                A[i] = A[i] + A[i]
    After
        def main(A: T.Buffer((8,), "float8_e5m2")):
            for i in range(8):
                A[i] = T.cast("float8_e5m2", T.cast("float16", A[i]) + T.cast("float16", A[i]))
    """
    return _compute("FP8ComputeLegalize", FLOAT8, promote_dtype_str, ("float16", "float32"))


def FP8StorageLegalize() -> PrimFuncPass:
    """8-bit floats in buffers and variables as uint8, parameters included.

    Needs   FP8ComputeLegalize before it.
    Before
        def main(A: T.Buffer((8,), "float8_e5m2"), B: T.Buffer((8,), "float8_e5m2")):
            for i in range(8):
                B[i] = A[i]
    After
        def main(A: T.Buffer((8,), "uint8"), B: T.Buffer((8,), "uint8")):
            for i in range(8):
                B[i] = A[i]
    """
    return built_in("FP8StorageLegalize", legalize_storage, FLOAT8, "FP8StorageLegalize")


def _compute(name: str, narrow: tuple[str, ...], wide: str, legal: tuple[str, ...]) -> PrimFuncPass:
    if wide not in legal:
        raise Unsupported(f"{name}(promote_dtype_str={wide!r}): legal: {', '.join(legal)}")
    return built_in(name, legalize_compute, dict.fromkeys(narrow, wide))
