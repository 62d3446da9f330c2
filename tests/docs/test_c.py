"""docs/c.md compiles, and its example runs, by the machine's C compiler."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import DOCS, ROOT, blocks

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
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
