"""What passes on expressions, conditions and buffers promise, on programs made for them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError, InternalError, Unsupported
from smelt.ir.expr import Select, Var, const
from smelt.ir.module import IRModule
from smelt.ir.transform import PassContext
from smelt.tir import transform as t
from smelt.tir.interpret import InterpretError, interpret
from smelt.tir.nodes import (
    Allocate,
    AssertStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    seq,
    walk,
)
from smelt.tir.printer import script
from smelt.tir.verify import verify
from smelt.transform.tir.function_pass import built_in

from .support import arguments, expressions, has, kinds, program, result, same

FEW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
AB = 'def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int64):\n'


def sizes(func: PrimFunc) -> list[int]:
    """The extents of what is allocated."""
    return [s.buffer.shape[0].value for s in walk(func.body) if isinstance(s, Allocate)]  # type: ignore[attr-defined]


# --------------------------------------------------------------------------------- conditions


def test_conditions_leave_all_loops_that_do_not_change_them() -> None:
    func = program(
        AB
        + """
            for i in range(2):
                for j in range(4):
                    A[i * 4 + j] = 1.0
                    if n > 2 and j < 3:
                        B[i * 4 + j] = 2.0
                    if i > 0:
                        B[j] = B[j] + 1.0
        """
    )
    new = verify(t.HoistIfThenElse()(func))
    assert isinstance(new.body, IfThenElse)
    assert script(new.body.condition).strip() == "n > 2"
    for s in walk(new.body):
        if isinstance(s, For) and s.var.name.startswith("j"):
            assert "i > 0" not in script(s), "it does not depend on j"
    for n in (0, 5):
        same(new, func, arguments(func, size=n))


@pytest.mark.parametrize(
    "condition", ["A[0] > 0.0", "8 // n > 1", "T.cast('int64', T.sqrt(T.cast('float32', n))) > 1"]
)
def test_what_may_fail_or_change_stays_in_the_loop(condition: str) -> None:
    func = program(AB + f"    for i in range(8):\n        if {condition}:\n            A[i] = 2.0")
    for p in (t.HoistIfThenElse(), t.HoistIfThenElse("basic"), t.HoistExpression()):
        assert p(func) is func


def test_the_basic_variant_moves_a_branch_that_is_all_of_the_body() -> None:
    alone = program(AB + "    for i in range(8):\n        if n > 1:\n            A[i] = 2.0")
    beside = program(
        AB + "    for i in range(8):\n        B[i] = 1.0\n        if n > 1:\n            A[i] = 2.0"
    )
    assert isinstance(t.HoistIfThenElse("basic")(alone).body, IfThenElse)
    assert t.HoistIfThenElse("basic")(beside) is beside
    assert isinstance(t.HoistIfThenElse()(beside).body, IfThenElse)
    with pytest.raises(Unsupported, match=re.escape("variant='all'): legal: None, \"basic\"")):
        t.HoistIfThenElse("all")


def test_at_most_four_conditions_leave_a_loop() -> None:
    lines = [f"        if n > {k}:\n            A[{k}] = {k}.0" for k in range(7)]
    func = program(AB + "    for i in range(8):\n" + "\n".join(lines))
    new = verify(t.HoistIfThenElse()(func))
    assert sum(isinstance(s, For) for s in walk(new.body)) <= 16
    for n in range(8):
        same(new, func, arguments(func, size=n))


@pytest.mark.parametrize(
    ("config", "left"),
    [
        ({"hoisted_conditionals": 0, "hoisted_let_bindings": 0}, "For"),
        ({"hoisted_conditionals": 1, "hoisted_let_bindings": 0}, "IfThenElse"),
        ({"hoisted_conditionals": 0, "hoisted_let_bindings": 2}, "LetStmt"),
    ],
)
def test_the_context_says_what_hoist_expression_moves(config: dict[str, int], left: str) -> None:
    func = program(
        AB + "    for i in range(8):\n        m: T.int64 = n * 2\n        if n > 3:\n"
        "            A[i] = T.cast('float32', m)"
    )
    with PassContext(config={"tir.HoistExpression": config}):
        new = t.HoistExpression()(func)
    assert type(new.body).__name__ == left
    for n in (0, 5):
        same(new, func, arguments(func, size=n))


def test_a_select_stays_one_where_both_values_are_safe() -> None:
    func = program(
        AB + "    for i in range(8):\n"
        "        B[i] = T.select(i < 4, A[i], A[7 - i]) + T.select(n > 0, A[i % n], 0.0)"
    )
    new = verify(t.RewriteUnsafeSelect()(func))
    assert [isinstance(e, Select) for e in expressions(new)].count(True) == 1
    given = arguments(func, size=0)
    assert result(new, given)[1][0] == given[0][0]
    same(new, func, arguments(func, size=3))


# ------------------------------------------------------------------------- common expressions


def test_what_is_shared_is_bound_where_its_uses_meet() -> None:
    func = program(
        AB
        + """
            for i in range(4):
                A[i + n * 2 - n - 3] = B[i + n * 2 - n - 3]
                if i > 2:
                    A[i] = T.cast("float32", n * 2)
                else:
                    B[i] = T.cast("float32", (i + 1) * (i + 1))
            for k in range(n * 2 - n - 2):
                B[k] = 0.0
        """
    )
    new = verify(t.CommonSubexprElimTIR()(func))
    text = script(new)
    assert text.count("n * 2") == 1
    assert text.count("(i + 1)") <= 1
    for s in walk(new.body):
        assert not isinstance(s, LetStmt) or s.var.name.startswith("cse_var_")
    same(new, func, arguments(func, size=3))
    assert t.CommonSubexprElimTIR(enable_cse_tir=False)(func) is func


def test_equal_terms_are_found_where_asked() -> None:
    func = program(AB + "    for i in range(4):\n        A[i + n + i] = B[n + 2 * i]")
    assert not has(t.CommonSubexprElimTIR()(func), LetStmt)
    new = t.CommonSubexprElimTIR(True, identify_equiv_terms=True)(func)
    assert has(new, LetStmt)
    same(new, func, arguments(func, size=1))


def test_loads_and_divisions_by_variables_are_computed_where_they_stand() -> None:
    func = program(
        AB + "    for i in range(4):\n        if n > 0:\n"
        "            B[i] = A[8 // n % 8]\n            B[i + 1] = A[8 // n % 8]"
    )
    new = t.CommonSubexprElimTIR()(func)
    bound = [script(s.value).strip() for s in walk(new.body) if isinstance(s, LetStmt)]
    assert "8 // n" not in bound
    same(new, func, arguments(func, size=3))


# ------------------------------------------------------------------------------------ storage


def test_buffers_of_disjoint_lives_share_and_others_do_not() -> None:
    func = program(
        AB
        + """
            C = T.allocate((8,), "float32")
            for i in range(8):
                C[i] = A[i] * 2.0
            for i in range(2):
                D = T.allocate((4,), "float32")
                for j in range(4):
                    D[j] = C[i * 4 + j] + 1.0
                for j in range(4):
                    B[i * 4 + j] = D[3 - j]
            E = T.allocate((6,), "float32")
            I = T.allocate((8,), "int64")
            for i in range(6):
                I[i] = i
                E[i] = B[i]
            for i in range(6):
                A[i] = E[5 - I[i]]
        """
    )
    new = verify(t.StorageRewrite()(func))
    same(new, func, arguments(func))
    assert sorted(sizes(new)) == [4, 8, 8], "E uses C's memory; D and the int64s cannot"


def test_a_parallel_loop_keeps_its_own_buffers() -> None:
    func = program(
        AB
        + """
            for i in T.parallel(2):
                C = T.allocate((4,), "float32")
                for j in range(4):
                    C[j] = A[i * 4 + j]
                D = T.allocate((4,), "float32")
                for j in range(4):
                    D[j] = C[3 - j]
                E = T.allocate((2,), "float32")
                for j in range(2):
                    E[j] = D[j] + D[j + 2]
                for j in range(2):
                    B[i * 4 + j] = E[1 - j]
        """
    )
    new = verify(t.StorageRewrite()(func))
    same(new, func, arguments(func))
    assert isinstance(new.body, For)
    assert sorted(sizes(new)) == [4, 4]


@FEW
@given(st.data())
def test_sharing_keeps_the_result(data: st.DataObject) -> None:
    """A chain of stages, each of which reads one of the buffers before."""
    count = data.draw(st.integers(2, 6))
    lines, known = [], ["A"]
    for k in range(count):
        size = data.draw(st.integers(1, 8))
        source = data.draw(st.sampled_from(known))
        lines += [
            f'    S{k} = T.allocate((8,), "float32")',
            f"    for i{k} in range({size}):",
            f"        S{k}[i{k}] = {source}[{size - 1} - i{k}] + {k}.0",
            f"    for j{k} in range({size}, 8):",
            f"        S{k}[j{k}] = {source}[j{k}]",
        ]
        known = [*known[-data.draw(st.integers(0, 2)) or len(known) :], f"S{k}"]
    lines.append(f"    for o in range(8):\n        B[o] = {known[-1]}[o] + {known[0]}[7 - o]")
    func = program(AB + "\n".join(lines))
    new = verify(t.StorageRewrite()(func))
    same(new, func, arguments(func))
    assert len(sizes(new)) <= len(sizes(func))


# ------------------------------------------------------------------------------------ no-ops


def test_what_does_nothing_goes_on_every_level() -> None:
    func = program(
        AB
        + """
            C = T.allocate((4,), "float32")
            for i in range(n - n):
                A[i] = 1.0
            for i in range(8):
                for j in range(4):
                    if i > j:
                        pass
                    else:
                        A[i] = A[i]
            if n < n + 1:
                T.evaluate(n + 1)
            assert True, "always"
            m: T.int64 = n + 1
            B[0] = 2.0
        """
    )
    new = verify(t.RemoveNoOp()(func))
    assert isinstance(new.body, BufferStore)
    same(new, func, arguments(func))


def test_an_effect_is_no_no_op() -> None:
    func = program(
        AB + '    T.evaluate(T.call("int32", "prefetch", A[0]))\n    assert n > 0, "n"\n'
        "    B[0] = A[1]"
    )
    assert t.RemoveNoOp()(func) is func


# ----------------------------------------------------------------------------------- indices


def test_loops_and_indices_that_fit_have_32_bits() -> None:
    func = program(
        """
        def main(A: T.Buffer((64, 64), "float32"), I: T.Buffer((64,), "int64"), n: T.int64):
            for i in T.parallel(64):
                for j in range(2, 64):
                    if i * 64 + j < 4000:
                        A[i, (i + j) % 64] = T.cast("float32", I[j] * i)
                for k in range(n):
                    A[i, k % 64] = T.cast("float32", k)
                for l in range(64):
                    A[I[l] % 64, T.if_then_else(i > 3, i, l)] = 1.0
        """
    )
    new = verify(t.NarrowDataType(32)(func))
    same(new, func, arguments(func))
    types = {s.var.name: s.var.type for s in walk(new.body) if isinstance(s, For)}
    assert types == {"i": "int32", "j": "int32", "k": "int64", "l": "int32"}
    assert t.NarrowDataType(64)(func) is func


def test_what_is_too_large_keeps_64_bits_or_is_refused() -> None:
    func = program(
        """
        def main(A: T.Buffer((8,), "float32")):
            for i in range(3):
                A[(i * 2000000000 + 5) % 8] = 1.0
        """
    )
    new = verify(t.NarrowDataType(32)(func))
    same(new, func, arguments(func))
    assert "int64" in {e.dtype for e in expressions(new)}
    large = program(
        'def main(A: T.Buffer((4,), "float32")):\n    for i in range(4):\n'
        "        A[(i + 3000000000) % 4] = 1.0"
    )
    with pytest.raises(CompileError) as caught:
        t.ForceNarrowIndexToInt32()(large)
    assert str(caught.value) == (
        "ForceNarrowIndexToInt32: i + 3000000000 in main does not fit in 32 bits: it is at least "
        "3000000000"
    )
    with pytest.raises(CompileError, match="target_bits is 16; legal: 32 or 64"):
        t.NarrowDataType(16)(func)


def test_no_index_has_64_bits_after_force() -> None:
    func = program(
        """
        def main(A: T.Buffer((4, 4), "float32"), I: T.Buffer((4,), "int64"), n: T.int64):
            C = T.alloc_buffer((4, 4))
            for i, j in T.grid(4, 4):
                with T.block("C"):
                    v, w = T.axis.remap("SS", [i, j])
                    T.where(i * 4 + j < n)
                    C[v, w] = A[w, I[v] % 4]
            for k in range(n // 4):
                A[k, 0] = C[k, 1]
        """
    )
    new = verify(t.ForceNarrowIndexToInt32()(func))
    same(new, func, arguments(func, size=16))
    loads = [e for e in expressions(new) if isinstance(e, BufferLoad)]
    assert {i.dtype for e in loads for i in e.indices} == {"int32"}
    assert {s.var.type for s in walk(new.body) if isinstance(s, For)} == {"int32"}
    assert {e.dtype for e in loads if e.buffer.name == "I"} == {"int64"}


# ------------------------------------------------------------------------------------- bounds


@FEW
@given(st.integers(-3, 12), st.integers(-3, 12), st.integers(0, 9))
def test_a_check_fails_where_an_access_does(n: int, offset: int, extent: int) -> None:
    func = program(
        f"""
        def main(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int64"), n: T.int64):
            for i in T.vectorized({extent}):
                if i > 2 or n > 2:
                    A[i] = T.if_then_else(i < n, A[I[i] + {offset}], 0.0)
        """
    )
    new = verify(t.InstrumentBoundCheckers()(func))
    given_ = arguments(func, size=n)
    try:
        expected = result(func, given_)
    except InterpretError:
        with pytest.raises(InterpretError, match=r"is not in 0 \.\.\. 8 - 1"):
            result(new, given_)
        return
    for a, b in zip(result(new, given_), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_only_what_is_not_proved_is_checked() -> None:
    func = program(
        AB + "    for i in range(8):\n        B[i] = T.if_then_else(i > 0, A[i - 1], A[0])\n"
        "        while B[n] > 1.0:\n            B[n] = B[n] - 1.0"
    )
    new = verify(t.InstrumentBoundCheckers()(func))
    checks = [script(s).strip() for s in walk(new.body) if isinstance(s, AssertStmt)]
    assert Counter(checks) == {
        'assert n >= 0 and n < 8, "the index of B[n] is not in 0 ... 8 - 1"': 4
    }, "before the loop's condition, behind its body, and twice in it"
    same(new, func, arguments(func, size=3))


# ------------------------------------------------------------------------------ bound once


def test_a_second_binding_gets_objects_of_its_own() -> None:
    a, i = Buffer("A", (const(4),)), Var("i")
    b = Buffer("B", (const(4),))
    body = Allocate(b, seq(BufferStore(b, const(1.0), (i,)),
                           BufferStore(a, BufferLoad(b, (i,)) + 1.0, (i,))))  # fmt: skip
    loop = For(i, const(0), const(4), body)
    let = LetStmt(i, const(2), BufferStore(a, BufferLoad(a, (i,)) * 2.0, (i,)))
    func = PrimFunc((a,), seq(loop, let, loop), {"name": "main"})
    new = verify(t.ConvertSSA()(func))
    bound = [s.var for s in walk(new.body) if isinstance(s, For | LetStmt)]
    bound += [s.buffer for s in walk(new.body) if isinstance(s, Allocate)]  # type: ignore[misc]
    assert len(bound) == len(set(bound)) == 5
    same(new, func, arguments(func))
    assert t.ConvertSSA()(new) is new


# ----------------------------------------------------------------------------------- vectors


def test_without_vectors_loops_are_serial() -> None:
    func = program(AB + "    for i in T.vectorized(8):\n        B[i] = A[i]")
    for new in (t.VectorizeLoop(enable_vectorize=False)(func), in_context(t.VectorizeLoop(), func)):
        assert kinds(new) == {"serial"}
        same(new, func, arguments(func))
    assert kinds(t.VectorizeLoop()(func)) == set()


def in_context(p: Any, func: PrimFunc) -> PrimFunc:
    with PassContext(config={"tir.disable_vectorize": True}):
        new: PrimFunc = p(func)
        return new


VECTOR_ERRORS = [
    ("B[0] = A[i]", "vectorize: all iterations of i store to one element of B"),
    (
        "assert A[i] > 0.0, 'positive'",
        "vectorize: a check inside the vectorised loop i depends on it",
    ),
    ("while A[i] > 0.0:\n            A[i] = A[i] - 1.0",
     "vectorize: a while loop's condition depends on i"),
    ("for j in range(i):\n            B[i] = A[j]", "vectorize: the bounds of j depend on i"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "text"), VECTOR_ERRORS)
def test_what_has_no_vector_form_is_the_users_to_mend(body: str, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        t.VectorizeLoop()(program(AB + "    for i in T.vectorized(8):\n        " + body))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("config", "unrolled"),
    [
        ({}, 1),
        ({"auto_max_step": 8}, 2),
        ({"auto_max_step": 24}, 3),
        ({"auto_max_step": 24, "auto_max_depth": 2}, 2),
        ({"auto_max_extent": 3}, 2),
        ({"explicit_unroll": False}, 0),
    ],
)
def test_the_context_says_which_loops_are_unrolled(config: dict[str, Any], unrolled: int) -> None:
    func = program(
        AB + "    for i in range(3):\n        for j in range(4):\n"
        "            for k in T.unroll(2):\n                A[j * 2 + k] = B[j] + 1.0"
    )
    with PassContext(config={"tir.UnrollLoop": config}):
        new = verify(t.UnrollLoop()(func))
    same(new, func, arguments(func))
    left = {s.var.name for s in walk(new.body) if isinstance(s, For)}
    assert 3 - len(left) == unrolled


def test_a_loop_says_which_loops_inside_are_unrolled() -> None:
    func = program(
        AB + "    for i in T.serial(2, annotations={'pragma_auto_unroll_max_step': 4}):\n"
        "        for j in range(4):\n            A[i * 4 + j] = 1.0\n"
        "    for l in range(4):\n        B[l] = 2.0"
    )
    new = t.UnrollLoop()(func)
    assert [s.var.name for s in walk(new.body) if isinstance(s, For)] == ["i", "l"]


# ----------------------------------------------------------------------------------- modules


def test_filter_takes_functions_away() -> None:
    f = program('def f(A: T.Buffer((2,), "float32")):\n    A[0] = 1.0')
    mod = IRModule({"f": f, "g": f.with_attrs(name="g", kernel=True)}, {"version": 1})
    kept = t.Filter(lambda func: "kernel" in func.attrs)(mod)
    assert list(kept) == ["g"]
    assert kept.attrs == {"version": 1}
    with pytest.raises(CompileError, match="Filter takes the function f away; give it a module"):
        t.Filter(lambda func: False)(f)


def test_the_entry_is_the_only_function_or_main() -> None:
    f = program('def f(A: T.Buffer((2,), "float32")):\n    A[0] = 1.0')
    key = "tir.is_entry_func"
    assert key in t.AnnotateEntryFunc()(IRModule({"f": f}))["f"].attrs
    two = IRModule({"f": f, "g": f})
    assert t.AnnotateEntryFunc()(two) is two
    made = t.AnnotateEntryFunc()(IRModule({"f": f, "main": f}))
    assert [key in made[n].attrs for n in made] == [False, True]


ORDER = [
    (t.ConvertBlocksToOpaque(), "ConvertBlocksToOpaque: the block B has an init, whose condition "
     "needs the variable r; LowerInitBlock comes first"),
    (t.CompactBufferAllocation(), "CompactBufferAllocation: the block B has variables; "
     "ConvertBlocksToOpaque comes first"),
    (t.LowerOpaqueBlock(), "LowerOpaqueBlock: the block B has variables; ConvertBlocksToOpaque "
     "comes first"),
    (t.FlattenBuffer(), "FlattenBuffer: main still has blocks, e.g. root; LowerOpaqueBlock (or "
     "smelt.lower) comes first"),
]  # fmt: skip


@pytest.mark.parametrize(("p", "text"), ORDER)
def test_a_pass_says_what_comes_before_it(p: Any, text: str) -> None:
    func = program(
        """
        def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
            for i, k in T.grid(4, 8):
                with T.block("B"):
                    v, r = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[v] = 0.0
                    B[v] = B[v] + A[v, r]
        """
    )
    with pytest.raises(CompileError) as caught:
        p(func)
    assert str(caught.value) == text


def test_other_texts() -> None:
    func = program('def main(A: T.Buffer((2, 2), "float32")):\n    A[0, 0] = 1.0')
    with pytest.raises(CompileError, match="the buffer A of main has 2 dimensions; FlattenBuffer"):
        t.StorageRewrite()(func)
    with pytest.raises(CompileError, match=r"Simplify is a pass on tensor programs; it takes an "
                       r"IRModule or a PrimFunc, not int"):  # fmt: skip
        t.Simplify()(3)
    with pytest.raises(CompileError, match="the pass Apply gave a int for main; legal: a PrimFunc"):
        t.Apply(lambda f: 3)(func)  # type: ignore[arg-type, return-value]
    with pytest.raises(Unsupported, match=r"CompactBufferAllocation\(is_strict=False\): only True"):
        t.CompactBufferAllocation(is_strict=False)
    broken = built_in("Broken", lambda f: f.nothing)
    with pytest.raises(InternalError, match="main: the pass Broken failed: AttributeError: "):
        broken(func)


def test_the_interpreter_is_not_fooled() -> None:
    """The checks above compare numbers: two programs that differ are told apart."""
    one = program(AB + "    A[0] = 1.0")
    other = program(AB + "    A[0] = 2.0")
    with pytest.raises(AssertionError):
        same(other, one, arguments(one))
    values = np.zeros(8, dt.to_numpy("float32"))
    interpret(one, values, values.copy(), 1)
    assert values[0] == 1.0
