"""Several memory pools, inputs and outputs in the workspace, and algorithms of the user's."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt
from smelt import relay
from smelt.artifact.placing import Lifetime, Placing, Reach
from smelt.artifact.pools import Allocating
from smelt.ir.errors import CompileError
from smelt.ir.memory_pools import BufferInfo, Pool, PoolAllocation
from smelt.micro import (
    CSource,
    compile_c,
    export_model_library_format,
    open_board,
    read_model_library_format,
)
from smelt.runtime.errors import InputError, MicroError
from tests.models import conv_nets
from tests.models.net import floats

from .test_c import OPTIONS, TINY, WARNINGS, Array, compiled, run

SIZES = st.integers(0, 40)
X = floats("x", 1, 1, 49, 10)["x"]


def pool(name: str, size: int | None = None, speed: float = 1.0) -> Pool:
    return Pool(name, size, speed)


def net(**options: Any) -> CSource:
    return compile_c(conv_nets.dscnn(1), options=OPTIONS, name="net", **options)


def wanted(folder: Path) -> Array:
    made, (y,) = net(), [np.zeros((1, 12), "f4")]
    folder.mkdir()
    assert run(made, compiled(made, folder), [X], [y]) == 0
    return y


def tensors(names: Sequence[str], arrays: Sequence[Any]) -> Any:
    kind = type("Tensors", (ctypes.Structure,), {"_fields_": [(n, ctypes.c_void_p) for n in names]})
    return kind(*arrays)


def guarded(size: int) -> tuple[Array, int]:
    """Memory between guards, and where it begins."""
    space = np.full(size + 136, 0xA5, np.uint8)
    return space, 64 + -(space.ctypes.data + 64) % 8


def whole(space: Array, start: int, size: int) -> bool:
    return bool((space[:start] == 0xA5).all() and (space[start + size :] == 0xA5).all())


def run_in_pools(
    made: CSource, folder: Path, inputs: Sequence[Array], outputs: Sequence[Array], *flags: str
) -> None:
    """Run a model whose results stand in several pools; their ends are checked."""
    uses = [p for p in made.memory.pools if not p.constants]
    spaces = [guarded(p.used) for p in uses]
    pools = tensors([p.name for p in uses], [s.ctypes.data + at for s, at in spaces])
    given = [tensors([t.name for t in ts], [x.ctypes.data for x in xs])
             for ts, xs in ((made.inputs, inputs), (made.outputs, outputs))]  # fmt: skip
    library = ctypes.CDLL(str(compiled(made, folder, *flags)))
    assert library[f"{made.name}_run"](*map(ctypes.byref, (*given, pools))) == 0
    assert all(whole(s, at, p.used) for (s, at), p in zip(spaces, uses, strict=True))


# ---- planning -----------------------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn) -> Allocating:
    """Blocks, some made of the one before, and pools of some sizes."""
    blocks, near = [], {}
    for n in range(draw(st.integers(1, 9))):
        blocks.append(Lifetime(draw(SIZES), n, n + draw(st.integers(1, 3))))
        if n and blocks[n - 1].last == n and draw(st.booleans()):
            near[n - 1, n] = Reach(draw(st.integers(-4, 9)))
    every = range(len(blocks))
    pools = [pool(f"p{n}", draw(st.none() | st.integers(0, 90)), draw(st.integers(1, 4)))
             for n in range(draw(st.integers(1, 3)))]  # fmt: skip
    heat = [draw(st.integers(0, 99)) for _ in every]
    return Allocating(blocks, near, pools, [*map(str, every)], heat, [*"abcdefghijkl"], 1)


@settings(max_examples=150, deadline=None)
@given(plans(), st.sampled_from(["greedy_by_size", "linear_scan", "best"]))
def test_blocks_are_apart_and_pools_large_enough(plan: Allocating, algorithm: str) -> None:
    try:
        places = plan.allocated(algorithm)
    except CompileError:
        assert max([p.room for p in plan.pools]) < sum([b.size for b in plan.blocks])
        return
    assert plan.wrong(places) == ""
    for n, a in enumerate(plan.blocks):
        home, at = places[n]
        assert 0 <= at <= home.room - a.size
        for k in plan.meets[n] - {n}:
            b, (other, start) = plan.blocks[k], places[k]
            apart = at + a.size <= start or start + b.size <= at or home != other
            assert apart or (n, k) in plan.near or (k, n) in plan.near


def allocating(
    blocks: Sequence[Lifetime], pools: Sequence[Pool], heat: Sequence[int]
) -> Allocating:
    names = [f"b{n}" for n in range(len(blocks))]
    return Allocating(blocks, {}, pools, names, heat, ["one", "two", "three"], 8)


def homes(blocks: Sequence[Lifetime], pools: Sequence[Pool], heat: Sequence[int]) -> str:
    places = allocating(blocks, pools, heat).allocated("best")
    return " ".join([p.pool_info.name for p in places])


def test_what_is_used_most_stands_in_the_fastest() -> None:
    three = [Lifetime(16, 0, 2)] * 3
    slow, fast = pool("slow"), pool("fast", 32, 2)
    assert homes(three, [slow, fast], [1, 9, 5]) == "slow fast fast"
    assert homes(three, [slow, pool("fast", 48, 2)], [1, 9, 5]) == "fast fast fast"
    assert homes(three, [pool("a", 16), pool("b", 16), pool("c", 16)], [1, 9, 5]) == "c a b"
    small = [Lifetime(60, 0, 2), Lifetime(40, 0, 2), Lifetime(10, 0, 2)]  # 60 fits into one only
    assert homes(small, [pool("a", 70), pool("b", 40)], [0, 9000, 9000]) == "a b a"


def test_pools_that_are_too_small() -> None:
    three = [Lifetime(16, 0, 1), Lifetime(16, 1, 2), Lifetime(24, 1, 2)]
    said = re.escape("too small: 'b1' (16 bytes, alive in steps 1 to 2) has no room\n"
                     "  a has 24 bytes: 16 too few\n  b has 17 bytes: 15 too few\n"
                     "  step 1, two, works with 56 bytes\n"
                     "  all results take 56 bytes of one memory, and there are 41")  # fmt: skip
    with pytest.raises(CompileError, match=said):
        homes(three, [pool("a", 24), pool("b", 17)], [9, 0, 9])
    for wrong, said in (
        ([pool("a b")], "the memory pool 'a b': legal is a name for C that C does not use itself"),
        ([pool("int")], "the memory pool 'int': legal is a name for C that C does not use itself"),
        ([pool("a"), pool("A")], "'a': there are several of that name; legal: once each, capitals"),
        (
            [Pool("a", "64K")],  # type: ignore[arg-type]
            "'a': its size is '64K'; legal: bytes from 0, or None",
        ),
        (["sram"], "pools is ['sram']; legal: several of Pool(\"sram\", 65536), in a list"),
        (pool("a"), 'legal: several of Pool("sram", 65536), in a list'),
    ):
        with pytest.raises(CompileError, match=re.escape(said)):
            net(pools=wrong)
    with pytest.raises(CompileError, match=r"memory pools are too small: 'net_\w+' \(.* has no ro"):
        net(pools=[Pool("flash", 400, constants=True)])


# ---- C ------------------------------------------------------------------------------------------


def test_one_pool_changes_nothing() -> None:
    alone, plain = net(pools=[pool("sram", 1 << 20)]), net()
    assert (alone.source, alone.header, alone.memory) == (plain.source, plain.header, plain.memory)


def split(made: CSource) -> list[Pool]:
    """Two pools that a model just fills."""
    return [pool("dtcm", 2048, 2.0), pool("sram", made.workspace_bytes)]


def test_results_in_two_pools(tmp_path: Path) -> None:
    constants = [Pool("itcm", 4096, 2.0, constants=True), Pool("flash", constants=True)]
    plain = net()
    made = net(pools=[*split(plain), *constants])
    used = {p.name: p.used for p in made.memory.pools}
    assert 0 < used["dtcm"] <= 2048 < used["sram"] <= plain.workspace_bytes
    assert 0 < used["itcm"] <= 4096
    assert used["itcm"] + used["flash"] == made.constant_bytes == plain.constant_bytes
    assert made.workspace_bytes == used["dtcm"] + used["sram"]
    assert f"NET_DTCM_WORKSPACE_POOL_SIZE {used['dtcm']}\n" in made.header
    y = np.zeros((1, 12), "f4")
    (tmp_path / "pools").mkdir()
    section = '-DNET_SECTION_ITCM=__attribute__((section(".itcm")))'
    run_in_pools(made, tmp_path / "pools", [X], [y], section)
    np.testing.assert_array_equal(y, wanted(tmp_path / "plain"))
    shown = subprocess.run(["objdump", "-h", tmp_path / "pools" / "net.so"], capture_output=True,
                           text=True, check=True).stdout  # fmt: skip
    found = re.search(r" \.itcm +([0-9a-f]+)", shown)
    assert found is not None
    assert used["itcm"] <= int(found[1], 16) <= used["itcm"] + 256


@pytest.mark.parametrize("io", [False, True])
def test_a_trained_model(io: bool, tmp_path: Path) -> None:
    """Bytes are those of the plan with one pool."""
    path = TINY / "kws_int8.tflite"
    if not path.exists():
        pytest.skip(f"no trained models in {TINY} (SMELT_MODELS)")
    plain = compile_c(str(path), options=OPTIONS)
    x = np.random.default_rng(0).integers(-128, 128, plain.inputs[0].shape).astype("int8")
    y, found = np.zeros((1, 12), "int8"), np.ones((1, 12), "int8")
    for part in ("plain", "other"):
        (tmp_path / part).mkdir()
    assert run(plain, compiled(plain, tmp_path / "plain"), [x], [y]) == 0
    if io:
        made = compile_c(str(path), options=OPTIONS, workspace_io=True)
        assert made.workspace_bytes == plain.workspace_bytes
        run_in_place(made, tmp_path / "other", [x], [found])
    else:
        pools = [pool("dtcm", 1024, 2.0), pool("sram", plain.workspace_bytes)]
        made = compile_c(str(path), options=OPTIONS, pools=pools)
        assert min(p.used for p in made.memory.pools) > 0
        run_in_pools(made, tmp_path / "other", [x], [found])
    np.testing.assert_array_equal(found, y)


def run_in_place(
    made: CSource, folder: Path, inputs: Sequence[Array], outputs: Sequence[Array]
) -> None:
    """Run a model whose inputs and outputs stand in the workspace, twice."""
    library = ctypes.CDLL(str(compiled(made, folder)))
    space, start = guarded(made.workspace_bytes)
    address = ctypes.c_void_p(space.ctypes.data + start)

    def mapped(kind: str, names: Sequence[str]) -> list[int]:
        f = library[f"{made.name}_map_{kind}"]
        f.restype = type(tensors(names, []))
        found = f(address)
        return [getattr(found, n) for n in names]

    for _ in range(2):
        for at, x in zip(mapped("inputs", [t.name for t in made.inputs]), inputs, strict=True):
            ctypes.memmove(at, x.ctypes.data, x.nbytes)
        assert library[f"{made.name}_run"](address) == 0
        for at, y in zip(mapped("outputs", [t.name for t in made.outputs]), outputs, strict=True):
            ctypes.memmove(y.ctypes.data, at, y.nbytes)
    assert whole(space, start, made.workspace_bytes)


def test_inputs_and_outputs_in_the_workspace(tmp_path: Path) -> None:
    made, y = net(workspace_io=True), np.zeros((1, 12), "f4")
    assert "int32_t net_run(void *space);" in made.header
    assert "    float *x;" in made.header
    assert made.memory.workspace_io
    made.memory.check(ram=made.workspace_bytes)
    (tmp_path / "io").mkdir()
    run_in_place(made, tmp_path / "io", [X], [y])
    np.testing.assert_array_equal(y, wanted(tmp_path / "plain"))


def test_an_output_takes_the_place_of_its_input(tmp_path: Path) -> None:
    x = relay.var("x", shape=(64,), dtype="float32")
    w = relay.var("w", shape=(64,), dtype="float32")
    mod = smelt.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(x + x)))
    made = compile_c(mod, options=OPTIONS, name="net", workspace_io=True)
    assert made.workspace_bytes == 2 * 256  # w is there, though nobody reads it
    a, y = np.linspace(-1, 1, 64, dtype="f4"), np.zeros(64, "f4")
    run_in_place(made, tmp_path, [a, a], [y])
    np.testing.assert_array_equal(y, np.maximum(a + a, 0))


def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    """Every pool is as large as it has to be, and no larger."""
    made = net(pools=split(net()), workspace_io=True)
    made.save(tmp_path / "net.c")
    result = made.outputs[0].name
    (tmp_path / "main.c").write_text(f"""
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {{
    const struct net_workspace_pools pools = {{malloc(NET_DTCM_WORKSPACE_POOL_SIZE),
                                              malloc(NET_SRAM_WORKSPACE_POOL_SIZE)}};
    const struct net_inputs inputs = net_map_inputs(&pools);
    if (fread(inputs.x, 4, 490, stdin) != 490) return 2;
    if (net_run(&pools) != 0) return 3;
    if (fwrite(net_map_outputs(&pools).{result}, 4, 12, stdout) != 12) return 4;
    free(pools.dtcm);
    free(pools.sram);
    return 0;
}}
""")
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
    build = ["gcc", *WARNINGS, *flags, "main.c", "net.c", "-o", "net", "-lm"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "net"], input=X.tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    found = np.frombuffer(done.stdout, np.float32).reshape(1, 12)
    np.testing.assert_array_equal(found, wanted(tmp_path / "plain"))


def test_boards_and_archives(tmp_path: Path) -> None:
    made = net(pools=[*split(net()), Pool("flash", constants=True)])
    with open_board(made, "host") as board:
        (y,) = board.run(X)
    np.testing.assert_array_equal(y, wanted(tmp_path / "plain"))
    io = net(workspace_io=True)
    with pytest.raises(MicroError, match=r"legal: compile_c\(\.\.\., workspace_io=False\)"):
        open_board(io, "host")
    for code in (made, io):
        export_model_library_format(code, tmp_path / "net.tar")
        assert read_model_library_format(tmp_path / "net.tar") == code


# ---- algorithms of the user's -------------------------------------------------------------------


def one_after_another(blocks: list[BufferInfo], pressure: int) -> dict[BufferInfo, PoolAllocation]:
    at, found = 0, {}
    for b in blocks:
        found[b] = PoolAllocation(b.pool_candidates[0], at)
        at += b.size_bytes
    assert pressure <= at
    return found


def test_an_algorithm_of_the_users() -> None:
    plain = net()
    made = net(placing=one_after_another)
    assert made.workspace_bytes == sum(-(-b.size // 8) * 8 for b in plain.memory.blocks)
    smelt.register_func("tir.usmp.algo.trivial", one_after_another, override=True)
    for said in (one_after_another, "trivial"):
        with smelt.transform.PassContext(config={"tir.usmp.custom_algorithm": said}):
            assert compile_c(conv_nets.dscnn(1), options=OPTIONS, name="net").source == made.source
    aot = relay.backend.Executor("aot")
    x = relay.var("x", shape=(2, 8), dtype="float32")
    mod = smelt.IRModule.from_expr(relay.nn.softmax(relay.nn.softmax(x)))
    with smelt.transform.PassContext(config={"tir.usmp.custom_algorithm": "trivial"}):
        relay.build(mod, "llvm", executor=aot)
    with (
        smelt.transform.PassContext(config={"tir.usmp.custom_algorithm": "none"}),
        pytest.raises(InputError, match=r"no function 'tir\.usmp\.algo\.none'"),
    ):
        net()


def in_another(blocks: list[BufferInfo], pressure: int) -> list[Any]:
    return [("dtcm", 8 * n) for n in range(len(blocks))]


WRONG: dict[str, tuple[Callable[[list[BufferInfo], int], Any], str]] = {
    "few": (lambda blocks, pressure: [0], r"it gives 1 places; legal: one for each of 3 blocks"),
    "none": (lambda blocks, pressure: None, r"it gives 0 places"),
    "odd": (lambda blocks, pressure: [4, 0, 0], r"'b0' \(16 bytes, .*\) is put at 4 of "),
    "below": (lambda blocks, pressure: [0, -8, 0], r"'b1' \(16 bytes, .*\) is put at -8"),
    "large": (lambda blocks, pressure: [0, 16, 40], r"'b2' .* is put at 40 of .* inside one of"),
    "text": (lambda blocks, pressure: ["a", 0, 0], r"is put at 'a'"),
    "pool": (in_another, r"custom_algorithm in_another: 'b0' .* of 'dtcm'; legal: multiples of 8"),
    "meets": (lambda blocks, pressure: [0, 8, 16],
              r"'b1' .* at 8 of a meets 'b0' .* at 0; legal: up to -16, or from 16"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_one_error(name: str) -> None:
    algorithm, said = WRONG[name]
    blocks = [Lifetime(16, 0, 1), Lifetime(16, 1, 2), Lifetime(16, 2, 3)]
    plan = allocating(blocks, [pool("a", 48)], [0, 0, 0])
    with pytest.raises(CompileError, match=said):
        plan.allocated(algorithm)
    assert [p.byte_offset for p in plan.allocated(lambda blocks, pressure: [0, 16, 0])] == [
        0,
        16,
        0,
    ]
    near = Placing(blocks, {(0, 1): Reach(8)})
    assert near.taken(0, 1, 8) == (-8, 16)


# ---- the classic way ----------------------------------------------------------------------------


def test_classic_pools() -> None:
    x = relay.var("x", shape=(1, 64), dtype="float32")
    w = relay.const(np.ones((64, 64), "float32"))
    y = relay.nn.softmax(relay.nn.dense(relay.nn.softmax(relay.nn.dense(x, w)), w))
    mod, target = smelt.IRModule.from_expr(y), smelt.target.Target("c")
    fast = smelt.PoolInfoProperties(size_hint_bytes=320, read_bandwidth_bytes_per_cycle=8)
    workspace = smelt.WorkspaceMemoryPools([
        smelt.WorkspacePoolInfo("sram", [target], smelt.PoolInfoProperties(size_hint_bytes=4096)),
        smelt.WorkspacePoolInfo("dtcm", [target], fast),
    ])  # fmt: skip
    constants = smelt.ConstantMemoryPools([smelt.ConstantPoolInfo("flash", [target])])
    executor = relay.backend.Executor("aot", {"unpacked-api": True, "interface-api": "c"})
    config = {"tir.usmp.enable": True, "tir.usmp.use_workspace_io": True}
    with smelt.transform.PassContext(config=config):
        lib: Any = relay.build(mod, target, executor=executor, runtime="crt",
                          workspace_memory_pools=workspace,
                          constant_memory_pools=constants)  # fmt: skip
        with pytest.raises(CompileError, match="are in no table of tensors; legal: packed=False"):
            relay.build(mod, target, executor=relay.backend.Executor("aot"), runtime="crt")
        with pytest.raises(
            CompileError, match="use_workspace_io' belong to C, and the target make"
        ):
            relay.build(mod, "llvm", executor=relay.backend.Executor("aot"))
    header = lib.get_source("h")
    assert (
        "int32_t tvmgen_default_run(const struct tvmgen_default_workspace_pools *pools);" in header
    )
    assert "struct tvmgen_default_inputs tvmgen_default_map_inputs(const struct" in header
    uses = {p.name: p for p in lib.code.memory.pools}
    assert 0 < uses["dtcm"].used <= 320
    assert lib.get_source().count("TVMGEN_DEFAULT_SECTION_FLASH static const float") == 1
    with pytest.raises(
        CompileError, match="memory pools belong to C, and the target makes llvm co"
    ):
        relay.build(mod, "llvm", workspace_memory_pools=workspace)
    with pytest.raises(
        CompileError, match="f: smelt chooses constants; leave out constant_info_arr"
    ):
        smelt.ConstantPoolInfo("f", [target], [object()])
