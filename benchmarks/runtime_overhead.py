"""What the runtime itself costs: calling an identity model, a bound call, a parallel launch.

usage: python benchmarks/runtime_overhead.py
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from smelt.runtime import NativeExecutable, num_threads
from smelt.runtime.compilers import find_compiler
from smelt.runtime.native import library, source_folder

SOURCE = """
#include "smelt.h"
#include <string.h>
#include <time.h>

static int32_t nothing(void *closure, int64_t index) {
    (void)closure, (void)index;
    return 0;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int32_t smelt_entry(const smelt_host *host, void *const *tensors, const int64_t *sizes,
                    const void *weights, void *workspace) {
    (void)host, (void)sizes, (void)weights, (void)workspace;
    memcpy(tensors[1], tensors[0], 16);
    return 0;
}

/* Both tasks wait for each other, so two threads must take part. */
static int32_t meet(void *closure, int64_t index) {
    int *arrived = closure;
    (void)index;
    __atomic_fetch_add(arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < 2)
        ;
    return 0;
}

double hand_over(smelt_pool *pool, int32_t (*run)(void *, smelt_task, void *, int64_t),
                 int number) {
    double start = now();
    for (int i = 0; i < number; i++) {
        int arrived = 0;
        run(pool, meet, &arrived, 2);
    }
    return (now() - start) / number;
}

/* Nanoseconds of one hot launch of `count` empty tasks. */
double hot_launch(smelt_pool *pool, int32_t (*run)(void *, smelt_task, void *, int64_t),
                  int64_t count, int number) {
    double start = now();
    for (int i = 0; i < number; i++)
        run(pool, nothing, 0, count);
    return (now() - start) / number;
}
"""

METADATA: dict[str, Any] = {
    "abi": 1,
    "name": "identity",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": [4]}],
    "symbols": [],
    "features": [],
    "target": "llvm",
    "kernels": [],
    "weights_bytes": 0,
    "workspace_bytes": 64,
}


def microseconds(call: Callable[[], object], number: int = 20000, repeat: int = 7) -> float:
    """The fastest of several means."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter_ns()
        for _ in range(number):
            call()
        best = min(best, (time.perf_counter_ns() - start) / number / 1e3)
    return best


def compiled(folder: Path) -> ctypes.CDLL:
    """The model and the launch loop above."""
    (folder / "bench.c").write_text(SOURCE)
    flags = ["-shared", "-fPIC", "-O2", f"-I{source_folder()}"]
    result = folder / "bench.so"
    command = [*find_compiler(None), *flags, str(folder / "bench.c"), "-o", str(result)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(result))


def launches(code: ctypes.CDLL) -> list[tuple[str, float, float]]:
    """(what, median ns, best ns) of hot launches on the process's pool."""
    native = library()
    pool = ctypes.c_void_p(native.smelt_pool_default(0))
    run = native.smelt_pool_for
    code.hot_launch.restype = code.hand_over.restype = ctypes.c_double
    calls: dict[str, Callable[[], float]] = {
        "launch, 2 empty tasks": lambda: code.hot_launch(pool, run, ctypes.c_int64(2), 2000),
        "launch, 8 empty tasks": lambda: code.hot_launch(pool, run, ctypes.c_int64(8), 2000),
    }
    if num_threads() > 1:
        calls["launch, two threads meet"] = lambda: code.hand_over(pool, run, 2000)
    rows = []
    for name, call in calls.items():
        times = [call() for _ in range(25)]
        rows.append((name, float(np.median(times)), min(times)))
    return rows


def main() -> None:
    """Prints one line for each cost."""
    with tempfile.TemporaryDirectory() as folder:
        code = compiled(Path(folder))
        entry = ctypes.cast(code.smelt_entry, ctypes.c_void_p).value
        assert entry is not None
        exe = NativeExecutable(entry, None, METADATA, None, code)
        x = np.arange(4, dtype=np.float32)
        bound = exe.bind(x)
        print(f"threads of the pool       {num_threads()}")
        print(f"native entry              {bound.time(1_000_000) * 1e3:8.3f} us")
        print(f"exe(x)                    {microseconds(lambda: exe(x)):8.3f} us")
        print(f"exe(x).numpy()            {microseconds(lambda: exe(x).numpy()):8.3f} us")
        print(f"exe(x=x)                  {microseconds(lambda: exe(x=x)):8.3f} us")
        print(f"bound()                   {microseconds(bound):8.3f} us")
        for name, median, best in launches(code):
            print(f"{name:<25} {median / 1e3:8.3f} us (best {best / 1e3:.3f})")


if __name__ == "__main__":
    main()
