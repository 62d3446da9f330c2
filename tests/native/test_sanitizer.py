"""The runtime and code of programs under sanitizers: addresses, leaks, undefined behaviour."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import smelt
from tests.updates import nets
from tests.vm.test_native import GROWS, compiled

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

GROWS_USER = r"""
#include "smelt.h"
#include <stdio.h>
#include <stdlib.h>
extern const smelt_model_info grows_info;
static uint64_t state = 88172645463325252u;
static uint64_t draw(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}
static char weights[1 << 16] __attribute__((aligned(64)));
int main(void) {
    FILE *file = fopen("weights.bin", "rb");
    size_t got = file == NULL ? 0 : fread(weights, 1, sizeof weights, file);
    if (file != NULL) fclose(file);
    if ((int64_t)got < grows_info.weights_bytes) return 3;
    smelt_model *model = smelt_model_open_with_weights(&grows_info, weights);
    if (model == NULL) return 4;
    int64_t before = smelt_blocks(); /* the pool's */
    int64_t ended[3] = {0};
    for (int n = 0; n < 3000; n++) {
        int64_t most = (int64_t)draw(12), size[] = {(int64_t)draw(70)}, shapes[2][1];
        float *x = malloc((size_t)(size[0] + 1) * sizeof *x);
        for (int64_t i = 0; i < size[0]; i++) x[i] = (float)draw(9) - 4;
        smelt_tensor inputs[] = {{&most, 0, NULL, SMELT_INT64}, {x, 1, size, SMELT_FLOAT32}};
        smelt_tensor outputs[] = {{NULL, 1, shapes[0], SMELT_FLOAT32},
                                  {NULL, 1, shapes[1], SMELT_FLOAT32}};
        if (draw(3) == 0) inputs[1].rank = 0;
        else if (draw(2)) smelt_program_fail((int64_t)draw(60) + 1);
        int32_t status = smelt_model_run(model, inputs, outputs);
        ended[status == SMELT_OK ? 0 : status == SMELT_NO_MEMORY ? 1 : 2]++;
        smelt_program_fail(0);
        if (status == SMELT_OK && shapes[0][0] != size[0] + most) return 5;
        for (int o = 0; o < 2; o++) {
            if (status != SMELT_OK && outputs[o].data != NULL) return 6;
            smelt_free(outputs[o].data);
        }
        free(x);
    }
    smelt_model_close(model);
    smelt_program_trim();
    printf("%d %d %d\n", ended[0] > 100, ended[1] > 100, ended[2] > 100);
    return smelt_blocks() != before;
}
"""

CACHE_USER = r"""
#include "smelt.h"
#include <stdio.h>
#include <string.h>
extern const smelt_model_info net_info;
static float cache[8][8], x[8], weights[4096] __attribute__((aligned(64)));
int main(void) {
    FILE *file = fopen("weights.bin", "rb");
    if (file != NULL && fread(weights, 1, sizeof weights, file) == 0) weights[0] = 0;
    if (file != NULL) fclose(file);
    smelt_model *model = smelt_model_open_with_weights(&net_info, weights);
    if (model == NULL) return 4;
    int64_t before = smelt_blocks(); /* the pool's */
    for (int n = 0; n < 400; n++) {
        uint8_t flag = n % 3 != 0;
        int64_t row = n % 8, one[] = {1, 1}, line[] = {1, 8}, all[] = {8, 8}, shapes[2][2];
        int lent = n % 5 != 0;
        for (int i = 0; i < 8; i++) x[i] = (float)(n + i);
        smelt_tensor inputs[] = {{&flag, 0, NULL, SMELT_BOOL}, {&row, 2, one, SMELT_INT64},
                                 {x, 2, line, SMELT_FLOAT32}, {cache, 2, all, SMELT_FLOAT32}};
        smelt_tensor outputs[] = {{lent ? cache : NULL, 2, shapes[0], SMELT_FLOAT32},
                                  {NULL, 2, shapes[1], SMELT_FLOAT32}};
        if (n % 7 == 0) smelt_program_fail(n % 6 + 1);
        int32_t status = smelt_model_run(model, inputs, outputs);
        smelt_program_fail(0);
        if (status == SMELT_OK) {
            if ((outputs[0].data == (void *)cache) != lent) return 5;
            if (((float *)outputs[0].data)[8 * row] != (flag ? x[0] : -x[0])) return 6;
            if (!lent) smelt_free(outputs[0].data);
            smelt_free(outputs[1].data);
        }
    }
    smelt_model_close(model);
    smelt_program_trim();
    return smelt_blocks() != before;
}
"""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("sanitizer")
    (folder / "a.c").write_text("int main(void) { return 0; }\n")
    for name in ("gcc", "clang"):
        command = [name, *FLAGS, "a.c", "-o", "a"]
        if shutil.which(name) and not subprocess.run(command, cwd=folder).returncode:
            return name
    pytest.skip("no C compiler has the sanitizers (libasan, libubsan)")


@pytest.mark.parametrize("user", [GROWS_USER, CACHE_USER], ids=["grows", "cache"])
def test_nothing_is_lost_or_out_of_bounds(user: str, compiler: str, tmp_path: Path) -> None:
    """Random runs, some of which have no memory from some allocation on, or wrong inputs."""
    if user is GROWS_USER:
        compiled(GROWS).export_library(tmp_path / "model.tar")
    else:
        exe = smelt.compile(nets.chosen(8), state={"cache": "after"}, threads=1)
        exe.export_library(tmp_path / "model.tar")
    with tarfile.open(tmp_path / "model.tar") as file:
        file.extractall(tmp_path, filter="data")
    (tmp_path / "user.c").write_text(user)
    sources = [*sorted(tmp_path.glob("*.[co]")), *sorted((ROOT / "native").glob("*.c"))]
    command = [compiler, *FLAGS, f"-I{ROOT / 'native'}", *map(str, sources), "-o", "user"]
    subprocess.run([*command, "-lm", "-lpthread", "-ldl"], cwd=tmp_path, check=True)
    env = {**os.environ, "SMELT_NUM_THREADS": "1"}
    done = subprocess.run(["./user"], cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr[:4000]
    assert user is CACHE_USER or done.stdout == "1 1 1\n"
