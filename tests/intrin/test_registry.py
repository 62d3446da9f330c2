"""Instructions mean what numpy says, tiles and their implementations agree, mistakes are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.ir.errors import ScheduleError, VerifyError
from smelt.ir.expr import Call, IntImm, StringImm, Var, const
from smelt.tir.equal import structural_equal
from smelt.tir.interpret import InterpretError, interpret
from smelt.tir.intrin import Instruction, TensorIntrin
from smelt.tir.nodes import Buffer, BufferStore, PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.verify import verify

from .byte_products import DSP, HELIUM
from .cases import immediates, interpreted, meant, numbers, operands

OWN = {i.name for i in (*DSP, *HELIUM)}
"""Those with a test of their own."""
INSTRUCTIONS = tuple([n for n in Instruction.list() if n not in OWN])
INTRINSICS = TensorIntrin.list()


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_means_what_numpy_computes(name: str) -> None:
    made = Instruction.get(name)
    verify(made.meaning)
    for seed, lane in enumerate(immediates(made) or [0, 0]):
        rng = np.random.default_rng(seed)
        args = [numbers(p, rng) if isinstance(p, Buffer) else lane for p in made.operands]
        result = numbers(made.result, rng)
        interpret(made.meaning, *args, result)
        np.testing.assert_array_equal(result, meant(made, args), err_msg=name)


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_says_where_it_comes_from_and_can_be_written(name: str) -> None:
    made = Instruction.get(name)
    assert made.source
    assert made.features
    assert made.c
    assert made.header
    assert all(p.name.isidentifier() for p in made.meaning.params)


@pytest.mark.parametrize("name", INTRINSICS)
def test_implementation_and_description_agree(name: str) -> None:
    intrin = TensorIntrin.get(name)
    for f in intrin:
        verify(f)
        assert structural_equal(parse(script(f)), f)
    for seed in range(2):
        args = operands(intrin.desc, seed)
        one, other = (interpreted(f, args) for f in intrin)
        for before, a, b in zip(args, one, other, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)
            assert (a != before).any() == (before is args[-1])
    assert intrin.instructions
    assert intrin.features


@given(st.data())
def test_bytes_at_their_ends_do_not_saturate(data: st.DataObject) -> None:
    """The largest and smallest bytes together are where a dot product could go wrong."""
    name = data.draw(
        st.sampled_from([n for n in INSTRUCTIONS if "dot" in n or "dpbusd" in n or "mmla" in n])
    )
    made = Instruction.get(name)
    args: list[object] = []
    for p in made.operands:
        if isinstance(p, Var):
            args.append(data.draw(st.integers(0, 3)))
            continue
        info = np.iinfo(p.type)
        count = p.fixed_shape() or (0,)
        ends = st.sampled_from([info.min, info.max, 0, 1])
        values = data.draw(st.lists(ends, min_size=count[0], max_size=count[0]))
        args.append(np.array(values, p.type))
    result = np.zeros((made.result.fixed_shape() or ())[0], made.result.type)
    interpret(made.meaning, *args, result)
    np.testing.assert_array_equal(result, meant(made, args))


# --------------------------------------------------------------------------------------- errors

TILE = "def tile(A: T.Buffer((4,)), C: T.Buffer((4,))):\n    C[0] = A[0]"
OTHER = "def tile(A: T.Buffer((4,)), C: T.Buffer((8,))):\n    C[0] = A[0]"


def program(text: str) -> PrimFunc:
    return parse("@T.prim_func\n" + text + "\n")


def test_names_that_nobody_knows() -> None:
    with pytest.raises(ScheduleError) as e:
        TensorIntrin.get("x86.avx512.vnni_dot_16x8")
    assert str(e.value) == (
        "there is no tensor intrinsic 'x86.avx512.vnni_dot_16x8'; nearest: "
        "x86.avx512.vnni_dot_16x4, x86.avx512.vnni_dot_16x2_i16, x86.avx512vl.vnni_dot_8x4"
    )
    assert TensorIntrin.get("x86.avx512.vnni_dot_16x8", allow_missing=True) is None
    with pytest.raises(VerifyError) as v:
        Instruction.get("arm.neon.fmlal")
    assert str(v.value).startswith("there is no instruction 'arm.neon.fmlal'; nearest: ")
    assert "arm.neon.fmla" in str(v.value)


def test_a_name_belongs_to_one() -> None:
    known = TensorIntrin.get("arm.neon.fma_4x")
    with pytest.raises(VerifyError) as e:
        TensorIntrin.register("arm.neon.fma_4x", *known)
    assert str(e.value) == (
        "the tensor intrinsic 'arm.neon.fma_4x' is registered already; override=True replaces it"
    )
    with pytest.raises(VerifyError) as v:
        Instruction.register("arm.neon.fmla", TILE, arch="aarch64")
    assert str(v.value) == (
        "the instruction 'arm.neon.fmla' is registered already; override=True replaces it"
    )


def test_pairs_have_one_signature() -> None:
    with pytest.raises(VerifyError) as e:
        TensorIntrin("bad", program(TILE), program(OTHER))
    assert str(e.value) == (
        "the tensor intrinsic 'bad': C is float32[4] in the description, float32[8] as implemented"
    )
    with pytest.raises(VerifyError) as e:
        TensorIntrin("bad", program(TILE), program("def f(A: T.Buffer((4,))):\n    A[0] = A[1]"))
    assert str(e.value) == ("the tensor intrinsic 'bad': 2 parameters described, 1 implemented")


def test_pairs_of_one_name_keep_apart() -> None:
    """A trace names its intrinsics: another pair of the same name gets another one."""
    first, second = program(TILE), program(TILE)
    one = TensorIntrin.of_pair(first, first)
    other = TensorIntrin.of_pair(second, second)
    assert one is TensorIntrin.of_pair(first, first)
    assert one.name != other.name
    assert TensorIntrin.get(other.name) is other


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def f(A: T.Buffer((4, 4)), r: T.Buffer((4,))):\n    r[0] = A[0, 0]",
            "A is no vector: a dense buffer of one dimension of known extent",
        ),
        (
            "def f(A: T.Buffer((4,)), x: T.float32, r: T.Buffer((4,))):\n    r[0] = A[0] * x",
            "x is no immediate: an integer",
        ),
        (
            "def f(A: T.Buffer((4,)), x: T.int32):\n    A[0] = A[1]",
            "the last parameter is not a buffer, the result",
        ),
        (
            "def f(A: T.Buffer((4,)), r: T.Buffer((4,))):\n    A[0] = r[0]",
            "it writes A, which is no result",
        ),
        (
            "def f(A: T.Buffer((4,)), r: T.Buffer((4,))):\n"
            '    with T.block("b"):\n        r[0] = A[0]',
            "it has blocks; a meaning is plain loops",
        ),
    ],
)
def test_meanings_are_plain_programs_of_vectors(text: str, message: str) -> None:
    with pytest.raises(VerifyError) as e:
        Instruction("bad", program(text), arch="x86")
    assert str(e.value) == f"the meaning of the instruction bad: {message}"


def test_an_architecture_is_a_known_one() -> None:
    with pytest.raises(VerifyError) as e:
        Instruction("bad", program(TILE), arch="vax")
    assert str(e.value) == (
        "instruction bad: unknown architecture 'vax'; known: aarch64, arm, riscv, x86"
    )


def call(dtype: str, name: str, *args: Any, op: str = "call_instruction") -> PrimFunc:
    """A program that stores the value of a call; the operand "scalar" is an element."""
    a = Buffer("A", (const(16),), "float32")
    value = Call(dtype, op, (StringImm(name), *[a[0] if x == "scalar" else x for x in args]))
    return PrimFunc((a,), BufferStore(a, value, (const(0),)), {"name": "main"})


CALLS = {
    "unknown": (("float32", "arm.neon.fmal"), "there is no instruction 'arm.neon.fmal'; nearest: "),
    "count": (("float32x4", "arm.neon.fmla", "scalar"), "arm.neon.fmla takes 3 operands, 1 given"),
    "type": (
        ("float32x4", "arm.neon.fmla", "scalar", "scalar", "scalar"),
        "arm.neon.fmla: c is of type float32, expected float32x4",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_the_verifier_knows_instructions(case: str) -> None:
    args, message = CALLS[case]
    with pytest.raises(VerifyError) as e:
        verify(call(*args))
    assert message in str(e.value)
    assert "^" in str(e.value)


def test_results_and_immediates_are_checked() -> None:
    lane = Instruction.get("arm.neon.fmla_lane")
    v, i = Var("v", "float32x4"), Var("i", "int32")
    assert lane.complaint("float32x4", [v, v, v, i]) == (
        "arm.neon.fmla_lane: lane is an immediate: an integer constant"
    )
    assert lane.complaint("float32", [v, v, v, IntImm("int32", 1)]) == (
        "arm.neon.fmla_lane gives float32x4, not float32"
    )
    assert lane(v, v, v, 2).args[-1] is IntImm("int32", 2)
    with pytest.raises(VerifyError, match="takes 4 operands, 3 given"):
        lane(v, v, v)


def test_llvm_intrinsics_have_llvm_names() -> None:
    with pytest.raises(VerifyError, match=r"'x86\.fma' is not the name of an LLVM intrinsic"):
        verify(call("float32", "x86.fma", "scalar", op="call_llvm_pure_intrin"))
    verify(call("float32", "llvm.fabs.f32", "scalar", op="call_llvm_pure_intrin"))


def test_the_interpreter_refuses_what_nobody_has_told() -> None:
    func = call("float32", "llvm.some.thing.f32", "scalar", op="call_llvm_pure_intrin")
    with pytest.raises(InterpretError) as e:
        interpret(func, np.zeros(16, "float32"))
    message, *marked = str(e.value).splitlines()
    assert message == (
        "main: nobody says what llvm.some.thing.f32 does: register an Instruction with its meaning"
    )
    assert marked[-1].endswith("here")
