"""docs/c.md compiles, and its example runs, by the machine's C compiler."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import DOCS, ROOT, blocks

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
CXX = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
EXAMPLE = ROOT / "examples" / "run_from_c"
PAGE = (DOCS / "c.md").read_text(encoding="utf-8")
PRINTED = "0.422 0.155 0.422\n0.844 0.042 0.114\n"
AROUND = """#include "net.h"
#include <stdio.h>
#include <stdlib.h>
int32_t my_parallel_for(void *pool, smelt_task task, void *closure, int64_t count);
extern void *my_pool, *weights;
void shown_%d(smelt_model *model, smelt_tensor input) {
    (void)model, (void)input;
    {
%s
    }
}
"""

pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, with its model exported."""
    made = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("c") / "run_from_c")
    subprocess.run([sys.executable, "model.py"], cwd=made, check=True)
    return made


def test_the_page_shows_the_example() -> None:
    code = [b.code for b in blocks(PAGE) if b.language == "c"]
    assert code[0] == (EXAMPLE / "main.c").read_text().strip()
    assert len(code[0].splitlines()) <= 20
    assert PRINTED.strip() in [b.code for b in blocks(PAGE) if b.language == "text"]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_the_example_runs(folder: Path) -> None:
    command = ["make", "-s", f"CC={CC}", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(PRINTED)


CPP = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=address,undefined"]
DECIDES = """
import onnx.parser, smelt
model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    decides (float[n] x) => (int64[1, m] y, float[k] z) {
        y = NonZero(x)
        z = Relu(x)
    }''')
smelt.compile(model).export_library("decides.so", header=True)
"""
USER = r"""#include "net.h"
#include "decides.h"
#include <cstdio>

int main() {
    const float x[] = {0, 1, -2, 0, 3};
    smelt::model decides(decides_info), net(net_info);
    decides.set_threads(1);
    std::vector<smelt::array> found = decides.run({smelt::array::of({5}, x)});
    const smelt::array shared = found[0];
    for (int64_t i = 0; i < shared.size(); i++)
        std::printf("%d ", (int)shared.data<int64_t>()[i]);
    std::printf("of %d x %d\n", (int)shared.shape()[0], (int)shared.shape()[1]);
    try {
        net.run({smelt::array(SMELT_FLOAT32, {2, 5})});
    } catch (const smelt::error &e) {
        std::printf("%s %d\n", e.what(), (int)e.status());
    }
    try {
        net.run({});
    } catch (const smelt::error &e) {
        std::printf("%s\n", e.what());
    }
    try {
        found[1].data<double>();
    } catch (const smelt::error &e) {
        std::printf("%s\n", e.what());
    }
}
"""


@pytest.mark.skipif(CXX is None, reason="no C++ compiler")
def test_the_example_in_cpp_runs(folder: Path) -> None:
    (code,) = [b.code for b in blocks(PAGE) if b.language == "cpp"]
    assert code == (EXAMPLE / "main.cpp").read_text().strip()
    assert cpp(folder, "main.cpp", "net.so") == PRINTED


@pytest.mark.skipif(CXX is None, reason="no C++ compiler")
def test_models_that_decide_and_mistakes_in_cpp(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", DECIDES], cwd=folder, check=True)
    (folder / "user.cpp").write_text(USER)
    assert cpp(folder, "user.cpp", "net.so", "decides.so") == (
        "1 2 4 of 1 x 3\n"
        "net: input 'x': dimension 1 is 5, it must be 4 3\n"
        "net: 0 inputs, it has 1\n"
        "the elements of this array are float32\n"
    )


def cpp(folder: Path, source: str, *libraries: str) -> str:
    """What a program in C++ prints, with the sanitizers' checks."""
    command = [CXX or "c++", *CPP, source, *libraries, "-Wl,-rpath,$ORIGIN", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run(["./program"], cwd=folder, check=True, capture_output=True,
                          text=True).stdout  # fmt: skip


def test_what_the_page_shows_besides_compiles(folder: Path) -> None:
    shown = [b.code for b in blocks(PAGE) if b.language == "c"][1:]
    assert len(shown) >= 4
    (folder / "shown.c").write_text("".join(AROUND % pair for pair in enumerate(shown)))
    flags = ["-std=c11", "-Wall", "-Werror", "-Wno-unused-variable", "-fsyntax-only"]
    subprocess.run([CC or "cc", *flags, "shown.c"], cwd=folder, check=True)


def test_a_program_without_a_shared_library(folder: Path, tmp_path: Path) -> None:
    program = (
        "import runpy, onnx.parser, smelt\n"
        "exe = smelt.compile(onnx.parser.parse_model(runpy.run_path('model.py')['NET']))\n"
        f"exe.export_library({str(tmp_path / 'net.tar')!r}, header=True)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)
    main = (EXAMPLE / "main.c").read_text()
    opened = 'fread(weights, 1, sizeof weights, fopen("weights.bin", "rb")) == 0 ? NULL : '
    opened += "smelt_model_open_with_weights(&net_info, weights)"
    main = main.replace("net_open()", opened)
    main = main.replace("int main", "static _Alignas(64) char weights[1 << 16];\n\nint main")
    (tmp_path / "main.c").write_text(main)
    native = ROOT / "native"
    build = f"tar xf net.tar && {CC} -std=c11 -I{native} main.c model.c model?*.o {native}/*.c"
    subprocess.run(f"{build} -lm -lpthread -ldl -o main", shell=True, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == PRINTED, done.stderr
