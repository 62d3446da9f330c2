"""Whole models as objects of other machines: what stands in them, without running any."""

from __future__ import annotations

import platform
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import smelt
from smelt.codegen.llvm import is_native, object_code, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.codegen.workers import default_pool
from smelt.lowering.lower import for_target
from smelt.pipeline import lower_program as lower
from smelt.target import Target
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from tests.models.conv_nets import dscnn, mlp
from tests.models.net import Net
from tests.models.transformers import bert

from .build import run_llvm

TARGETS = {
    # name: the target, ELF's e_machine and class, helpers of the compiler's own library
    "aarch64": ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72", 183, 2, set[str]()),
    "armv7": (
        "llvm -mtriple=armv7-linux-gnueabihf -mattr=+neon", 40, 1,
        {"__divdi3", "__moddi3", "__aeabi_ldivmod", "__floatdisf", "__aeabi_l2f"},
    ),
    "riscv64": ("llvm -mtriple=riscv64-linux-gnu -mattr=+m,+a,+f,+d,+c", 243, 2, set[str]()),
    "wasm32": (
        "llvm -mtriple=wasm32", 0, 0,
        {"__linear_memory", "__stack_pointer", "__indirect_function_table"},
    ),
}  # fmt: skip
LIBM = {"fmaf", "fma", "expf", "tanhf", "erff", "powf", "fmodf", "rintf", "floorf", "memset"}


def half(batch: int | str) -> onnx.ModelProto:
    """Arithmetic in float16, and conversions from and to it."""
    net = Net()
    x = net.input("x", [batch, 8])
    small = net.op("Cast", x, to=onnx.TensorProto.FLOAT16)
    wide = net.op("Exp", net.op("Mul", small, net.op("Add", small, small)))
    return net.model(net.op("Cast", wide, to=onnx.TensorProto.FLOAT))


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "conv": lambda: dscnn(1),
    "mlp": lambda: mlp("n"),
    "bert": lambda: bert(1),
    "half": lambda: half("n"),
}


def objects(model: onnx.ModelProto, target: str, cache: str) -> dict[str, bytes]:
    """The object of the host program, and of every kernel."""
    made = smelt.compile_artifact(model, target, options=smelt.Options(cache_dir=cache))
    jobs = [(made.target, text, name) for name, text in made.texts.items()]
    codes = default_pool(1).map("smelt.codegen.llvm:object_code", jobs, [*made.texts])
    return dict(zip(made.texts, codes, strict=True))


def undefined(code: bytes) -> set[str]:
    """The names that an object asks others for: of ELF, of either class, and of WebAssembly."""
    if code.startswith(b"\0asm"):
        return set(_imports(code))
    wide = code[4] == 2
    start = struct.unpack_from("<Q" if wide else "<I", code, 40 if wide else 32)[0]
    size, count = struct.unpack_from("<HH", code, 58 if wide else 46)
    layout = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    heads = [struct.unpack_from(layout, code, start + i * size) for i in range(count)]
    found = set()
    for _, kind, _, _, at, length, link, _, _, step in heads:
        if kind != 2:  # SHT_SYMTAB
            continue
        for place in range(at + step, at + length, step):
            name, section = (
                struct.unpack_from("<IBBH", code, place)[::3]
                if wide
                else struct.unpack_from("<IIIBBH", code, place)[::5]
            )
            if section == 0:
                text = heads[link][4] + name
                found.add(code[text : code.index(b"\0", text)].decode())
    return found


def _imports(code: bytes) -> Iterator[str]:
    """The field names of the import section: (module, field, kind, type) each."""

    def number(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (code[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if code[at - 1] < 0x80:
                return value, at

    at = 8
    while at < len(code):
        kind, (length, at) = code[at], number(at + 1)
        if kind == 2:
            count, place = number(at)
            for _ in range(count):
                for part in ("module", "field"):
                    size, place = number(place)
                    if part == "field":
                        yield code[place : place + size].decode()
                    place += size
                what, place = code[place], place + 1
                numbers = {0: 1, 1: 3, 2: 2, 3: 2}[what]  # function, table, memory, global
                limited = what in (1, 2) and code[place + what % 2] & 1
                for _ in range(numbers + limited):
                    _, place = number(place)
        at += length


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("machine", TARGETS)
def test_a_whole_model_is_emitted(machine: str, model: str, tmp_path: Path) -> None:
    words, number, width, helpers = TARGETS[machine]
    made = objects(MODELS[model](), words, str(tmp_path))
    kernels = set(made) - {"host"}
    assert kernels
    for name, code in made.items():
        if machine == "wasm32":
            assert code.startswith(b"\0asm")
        else:
            assert code[:5] == b"\x7fELF" + bytes([width])
            assert struct.unpack_from("<H", code, 18)[0] == number
        allowed = LIBM | helpers | (kernels if name == "host" else set())
        assert undefined(code) <= allowed, name
    assert kernels <= undefined(made["host"])


def test_layouts_of_the_host_follow_the_pointer() -> None:
    func = parse(
        'def main(A: T.Buffer((64,), "float32")):\n'
        "    for i in T.parallel(64):\n        A[i] = 1.0\n"
    )
    assert isinstance(func, PrimFunc)
    offsets = {
        machine: "getelementptr inbounds i8, ptr %host, i64 4"
        in emit_module([func], Target(TARGETS[machine][0]))
        for machine in TARGETS
    }
    assert offsets == {"aarch64": False, "armv7": True, "riscv64": False, "wasm32": True}


def test_turns_of_a_sum_are_written_out_where_registers_are_given_by_llvm() -> None:
    """Engines of WebAssembly give them, in the order of the code; scalars soon fill them."""
    func = parse(
        'def main(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):\n'
        '    sum = T.alloc_buffer((1,), "float32", scope="local")\n'
        "    sum[0] = 0.0\n"
        "    for i in range(64):\n        sum[0] = sum[0] + A[i]\n"
        "    B[0] = sum[0]\n"
    )
    assert isinstance(func, PrimFunc)
    turns = {
        machine: emit_module([lower(func)], Target(TARGETS[machine][0])).count(" = fadd ")
        for machine in TARGETS
    }
    assert turns == {"aarch64": 4, "armv7": 4, "riscv64": 1, "wasm32": 1}


def test_products_and_sums_are_fused_where_that_is_one_instruction() -> None:
    text = (
        'def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
        "    for i in range(8):\n        A[i] = A[i] + B[i] * B[i]\n"
    )
    func = parse(text)
    assert isinstance(func, PrimFunc)
    for machine, (words, *_) in TARGETS.items():
        target = resolve(Target(words))
        ir = emit_module([lower(for_target(func, target))], target)
        assert ("llvm.fma" in ir) == (machine in ("aarch64", "riscv64")), machine
        assert "fmaf" not in undefined(object_code(target, ir, "main")), machine


# ---- float16 without instructions for it ---------------------------------------------------------


def converted(source: str, target: str, n: int) -> PrimFunc:
    """A[i] of one type as B[i] of another, in vectors, where no instruction knows float16."""
    func = parse(
        f'def main(A: T.Buffer(({n},), "{source}"), B: T.Buffer(({n},), "{target}")):\n'
        f"    for j in range({n // 16}):\n        for i in T.vectorized(16):\n"
        f'            B[j * 16 + i] = T.cast("{target}", A[j * 16 + i])\n'
    )
    assert isinstance(func, PrimFunc)
    made = lower(func.with_attrs(lacks=("float16",)))
    assert "half" not in emit_module([made])
    return made


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_every_half_is_read(kind: str) -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    out = np.zeros(len(values), kind)
    assert run_llvm(converted("float16", kind, len(values)), values, out) == 0
    with np.errstate(invalid="ignore"):
        expected = values.astype(kind)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int64"])
def test_halves_are_rounded_once(kind: str) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = np.sort(halves[np.isfinite(halves)])
    exact = halves.astype(np.float64)
    ties = (exact[1:] + exact[:-1]) / 2
    with np.errstate(all="ignore"):
        near = [np.nextafter(ties, s * np.inf) for s in (1, -1)]
        special = np.array([np.inf, -np.inf, np.nan, 65519.99, 65520.0, 1e300, -1e-300, 0.0])
        if kind.startswith("int"):
            special = np.array([65519, 65520, 1 << 24, (1 << 31) - 1, -(1 << 31)], np.float64)
            ties, near = np.round(ties), []
        values = np.concatenate([exact, ties, *near, special]).astype(kind)
        values = np.resize(values, -(-len(values) // 16) * 16)
        out = np.zeros(len(values), np.float16)
        assert run_llvm(converted(kind, "float16", len(values)), values, out) == 0
        expected = values.astype(np.float16)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="a CPU without F16C")
def test_a_model_in_float16_runs_without_instructions_for_it(tmp_path: Path) -> None:
    """It ended with symbols that were not found: helpers of a library that nobody links."""
    options = smelt.Options(cache_dir=str(tmp_path))
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
    found = [
        np.asarray(smelt.compile(half("n"), f"llvm -mcpu={cpu}", options=options)(x=x))
        for cpu in ("x86-64", "x86-64-v3")
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=2e-3)


@pytest.mark.parametrize(
    ("triple", "native"),
    [
        ("x86_64-unknown-linux-gnu", True),
        ("x86_64-pc-linux-gnu", True),
        ("x86_64-linux-gnu", True),
        ("x86_64", True),
        ("x86_64-linux-android", False),
        ("x86_64-linux-musl", False),
        ("x86_64-windows-gnu", False),
        ("x86_64-apple-macos", False),
        ("aarch64-linux-gnu", False),
    ],
)
def test_a_machine_is_more_than_its_processor(
    triple: str, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries for another system must not be linked by this one's compiler."""
    monkeypatch.setattr(
        "smelt.codegen.llvm.llvm.get_process_triple", lambda: "x86_64-unknown-linux-gnu"
    )
    assert is_native(Target(f"llvm -mtriple={triple}")) == native
