"""Packages of WebAssembly with threads: workers of node share a model's memory and its loops."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

import smelt
from smelt.runtime.compilers import find_web_compiler
from smelt.runtime.native import source_folder
from smelt.runtime.web import export_package
from tests.models.net import Net

from .test_cross import numbers, rows
from .webbed import arrays, need_node, run, script

CORES = "wasm -num-cores=4"
ISOLATION = (
    "threads need SharedArrayBuffer, which this page may not use: its server has to send the "
    "headers Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: "
    "require-corp; or load({ threads: 1 })"
)


def network() -> onnx.ModelProto:
    """Convolutions that are worth dividing."""
    net = Net(5)
    h = net.op("Relu", net.conv(net.input("x", (1, 3, 96, 96)), (3, 32), 3, 2, pads=[1] * 4))
    d = net.op("Relu", net.conv(h, (32, 32), 3, pads=[1] * 4, groups=32))
    d = net.op("Add", net.op("Relu", net.conv(d, (32, 32), 3, pads=[1] * 4)), h)
    d = net.op("Flatten", net.op("GlobalAveragePool", net.conv(d, (32, 64), 1)))
    return net.model(net.op("Softmax", net.dense(d, (64, 10))))


def loop() -> onnx.ModelProto:
    """A loop over products that ends when its values say so."""
    return onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        decides (float[200, 200] x) => (float[200, 200] y) {
            n = Constant<value_int = 20>()
            yes = Constant<value = bool {1}>()
            y = Loop(n, yes, x) <body = step (int64 i, bool c, float[200, 200] a)
                => (bool again, float[200, 200] b) {
                limit = Constant<value_float = 100000000.0>()
                b = MatMul(a, x)
                sum = ReduceSum<keepdims = 0>(b)
                again = Less(sum, limit)
            }>
        }""")


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, tuple[int, ...]]]] = {
    "network": (network, {"x": (1, 3, 96, 96)}),
    "rows": (rows, {"x": (301, 40)}),
    "loop": (loop, {"x": (200, 200)}),
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A package with threads for each case."""
    need_node()
    folder = tmp_path_factory.mktemp("threads")
    for case, (make, _) in CASES.items():
        made = smelt.compile_artifact(make(), CORES, cache_dir="")
        made.export_package(folder / case)
    return {case: folder / case for case in CASES}


@pytest.mark.parametrize("case", CASES)
def test_threads_give_what_one_does(packages: dict[str, Path], case: str) -> None:
    make, shapes = CASES[case]
    given = numbers(shapes)
    one, *others = [run(packages[case], given, threads=n) for n in (1, 2, 4)]
    assert [f["threads"] for f in (one, *others)] == [1, 2, 4]
    for other in others:
        for a, b in zip(arrays(one), arrays(other), strict=True):
            np.testing.assert_array_equal(a, b)
    wanted = smelt.compile(make(), threads=1, cache_dir="")(**given)
    for a, b in zip(arrays(one), wanted if len(arrays(one)) > 1 else [wanted], strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-6)


def test_loops_are_divided_among_the_cores_of_the_target(packages: dict[str, Path]) -> None:
    """By the schedule, and only where the target has cores: the plain package knows no threads."""
    parallel = {}
    for cores in (1, 4):
        options = smelt.Options(cache_dir="")  # which says nothing of threads
        made = smelt.compile_artifact(network(), f"wasm -num-cores={cores}", options=options)
        parallel[cores] = sum([".task" in text for text in made.texts.values()])
    assert parallel[1] == 0
    assert parallel[4] >= 4
    assert {f.name for f in packages["network"].iterdir()} == {
        "index.d.mts", "index.mjs", "model.bin", "model.mjs", "model.wasm", "package.json",
        "system.mjs", "threads.mjs", "worker.mjs"}  # fmt: skip


def test_a_package_without_threads_replaces_one_with_threads(tmp_path: Path) -> None:
    need_node()
    net = rows()
    smelt.compile_artifact(net, CORES).export_package(tmp_path / "net")
    assert (tmp_path / "net" / "worker.mjs").exists()
    smelt.compile_artifact(net, "wasm").export_package(tmp_path / "net")
    assert not {*(tmp_path / "net").glob("*worker*"), *(tmp_path / "net").glob("*threads*")}
    assert "Shared" not in "".join([f.read_text() for f in (tmp_path / "net").glob("*.mjs")])
    assert run(tmp_path / "net", numbers({"x": (3, 40)}), threads=8)["threads"] == 1


def test_two_models_at_once(packages: dict[str, Path]) -> None:
    """In turns; one goes on when the other is closed, and does not keep node from ending."""
    code = """async (rows, network) => {
        const a = await rows({ threads: 2 }), b = await network({ threads: 3 });
        const data = Float32Array.from({ length: 8000 }, (_, i) => Math.sin(i));
        const x = { data, dims: [200, 40] };
        const image = Float32Array.from({ length: 3 * 96 * 96 }, (_, i) => Math.cos(i));
        const said = [];
        for (let n = 0; n < 50; n++) {
            said.push(JSON.stringify([a.run({ x }).y.data, b.run({ x: image }).y0.data]));
        }
        a.close();
        a.close();
        let closed;
        try { a.run({ x }) } catch (error) { closed = error.message }
        const after = b.run({ x: image }).y0.data;
        const again = await rows({ threads: 2 });
        return [new Set(said).size, JSON.stringify([again.run({ x }).y.data, after]) === said[0],
                closed];
    }"""
    said = script(code, packages["rows"], packages["network"])
    assert said == [1, True, "rows: it is closed"]


def test_how_many_threads_there_are(packages: dict[str, Path]) -> None:
    """As many as the system has, at most those that the code was compiled for."""
    code = """async (load) => {
        const { availableParallelism } = await import("node:os");
        const threads = [(await load()).threads, (await load({ threads: 16 })).threads];
        const errors = [];
        for (const wanted of [0, 1.5, "2"]) {
            await load({ threads: wanted }).catch((error) => errors.push(error.message));
        }
        return [threads, Math.min(4, availableParallelism()), errors];
    }"""
    (usual, most), own, errors = script(code, packages["loop"])
    assert (usual, most) == (own, 4)
    assert errors == [f"decides: threads is {n}; legal: 1 or more" for n in ("0", "1.5", "2")]


def test_a_page_that_may_not_share_memory(packages: dict[str, Path]) -> None:
    """As a page says it; the test in a browser has a real one."""
    code = """async (load) => {
        globalThis.crossOriginIsolated = false;
        const said = await load({ threads: 2 }).catch((error) => error.message);
        const usual = await load().catch((error) => error.message);
        return [said, usual, (await load({ threads: 1 })).threads];
    }"""
    said = script(code, packages["loop"])
    # where there is one processor, one thread is usual
    assert said[0] == f"decides: {ISOLATION}"
    assert said[1] == said[0] or isinstance(said[1], dict)
    assert said[2] == 1


def test_a_system_with_few_addresses(packages: dict[str, Path]) -> None:
    """Memory that may grow to less, and no endless search where there is none at all."""
    code = """async (load) => {
        const { Memory } = WebAssembly;
        const asked = [];
        let most = 20000;
        WebAssembly.Memory = function (limits) {
            asked.push(limits.maximum);
            if (limits.maximum > most) throw new RangeError("no such memory");
            return new Memory(limits);
        };
        const found = (await load({ threads: 2 })).threads;
        const first = asked.splice(0);
        most = 0;
        const said = await load({ threads: 2 }).catch((error) => error.message);
        return [found, first, said, asked.at(-1)];
    }"""
    found, asked, said, last = script(code, packages["loop"])
    assert (found, asked, said) == (2, [65535, 32767, 16383], "no such memory")
    assert 256 <= last < 512


def test_memory_grows_under_the_workers(tmp_path: Path) -> None:
    """Inputs of 64 MB do not fit into the memory that the workers were given."""
    need_node()
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        large (float[n, 1000] x) => (float[n, 1000] y) { y = Sqrt(x) }""")
    smelt.compile_artifact(model, CORES).export_package(tmp_path / "net")
    code = """async (load) => {
        const model = await load({ threads: 4 });
        const found = [];
        for (const rows of [1, 16000, 3]) {
            const data = Float32Array.from({ length: 1000 * rows }, (_, i) => (i % 77) ** 2);
            const y = model.run({ x: { data, dims: [rows, 1000] } }).y.data;
            found.push(y.every((v, i) => v === i % 77));
        }
        return found;
    }"""
    assert script(code, tmp_path / "net") == [True, True, True]


# ---- what threads do, seen by a model that is written by hand ------------------------------------

MEETS = r"""
#include "smelt.h"
#include <stdatomic.h>
enum { COUNT = 3 };
static _Atomic int begun;
typedef struct { const float *x; float *y; } both;
/* Ends when all have begun: one thread alone would wait for ever. */
static int32_t meet(void *closure, int64_t index) {
    const both *b = closure;
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&begun) < COUNT) {}
    if (b->x[index] < 0) __builtin_trap();
    b->y[index] = b->x[index] + (float)index;
    return b->x[index] > 90 ? SMELT_BAD_VALUE : 0;
}
int32_t smelt_entry(const smelt_host *host, void *const *tensors, const int64_t *sizes,
                    const void *weights, void *workspace) {
    both b = {tensors[0], tensors[1]};
    begun = 0;
    return host->parallel_for(host->pool, meet, &b, COUNT);
}
"""


@dataclass(frozen=True)
class Meets:
    """A model whose tasks wait for each other."""

    metadata: Mapping[str, Any]
    objects: Sequence[bytes]
    name: str = "meets"
    triple: str = "wasm32-unknown-unknown"
    has_plan: bool = False
    weights: npt.NDArray[Any] | None = None
    lesser: tuple[Meets, ...] = ()


@pytest.fixture(scope="module")
def meets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of three tasks that wait for each other, for three threads."""
    need_node()
    folder = tmp_path_factory.mktemp("meets")
    (folder / "meets.c").write_text(MEETS)
    command = [*find_web_compiler(threads=True), "-std=c11", "-O2", f"-I{source_folder()}"]
    subprocess.run([*command, "-c", folder / "meets.c", "-o", folder / "meets.o"], check=True)
    tensor = {"dtype": "float32", "shape": [3]}
    described = {"name": "meets", "inputs": [{"name": "x", **tensor}],
                 "outputs": [{"name": "y", **tensor}]}  # fmt: skip
    made = Meets(described, [(folder / "meets.o").read_bytes()])
    export_package(made, folder / "meets", threads=3)
    return folder / "meets"


def test_tasks_run_at_the_same_time(meets: Path) -> None:
    """Also when the workers have gone to sleep before; a failure is told, and is of one run."""
    code = """async (load) => {
        const model = await load({ threads: 3 });
        const found = [];
        for (const x of [[1, 2, 3], [4, 99, 6], [7, 8, 9]]) {
            await new Promise((done) => setTimeout(done, 20));
            try { found.push([...model.run({ x: Float32Array.from(x) }).y.data]) }
            catch (error) { found.push(error.message) }
        }
        return found;
    }"""
    failure = "meets: a computed value that means nothing (status 11)"
    assert script(code, meets) == [[1, 3, 5], failure, [7, 9, 11]]


def test_a_worker_that_traps_is_an_error(meets: Path) -> None:
    """Whoever runs the model does not wait for it."""
    code = """async (load) => {
        const model = await load({ threads: 3 });
        try { model.run({ x: Float32Array.of(1, -1, 1) }) } catch (error) { return error.message }
    }"""
    assert script(code, meets) == "meets: a kernel failed (status 1)"


def test_a_thread_that_may_not_sleep(meets: Path) -> None:
    """As that of a page: waiting is an error there, and runs work all the same."""
    code = """async (load) => {
        const wait = Atomics.wait;
        Atomics.wait = () => { throw new TypeError("Atomics.wait cannot be called here") };
        const model = await load({ threads: 3 });
        Atomics.wait = wait;
        const x = Float32Array.of(1, 2, 3);
        return Array.from({ length: 100 }, () => [...model.run({ x }).y.data]);
    }"""
    assert script(code, meets) == 100 * [[1, 3, 5]]


def test_a_worker_that_does_not_start(meets: Path, tmp_path: Path) -> None:
    """Its error is that of `load`, and nothing is left running."""
    for file in meets.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "worker.mjs").write_text("throw new Error('no worker today');")
    code = "async (load) => load({ threads: 3 }).catch((error) => error.message)"
    assert script(code, tmp_path) == "meets: a worker failed: no worker today"


def test_the_description_of_a_package(packages: dict[str, Path]) -> None:
    text = (packages["loop"] / "model.mjs").read_text()
    told = json.loads(text.partition("=")[2].partition(";\n")[0])
    assert (told["name"], told["threads"]) == ("decides", 4)
    assert text.endswith('export * as parallel from "./threads.mjs";\n')
