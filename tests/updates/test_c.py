"""Exported models that update inputs, called from C: in place, and with outputs of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import smelt
from tests.updates import nets

STRAIGHT = r"""
#include "averaged.h"
#include <stdio.h>
#include <string.h>
#define SIZE 36
static float x[SIZE], mean[SIZE], hidden[SIZE], y[SIZE], other[SIZE];
int main(void) {
    smelt_model *model = averaged_open();
    if (model == NULL) { printf("%s\n", smelt_last_error()); return 1; }
    int64_t size[] = {6, 6};
    for (int i = 0; i < SIZE; i++) x[i] = 1, hidden[i] = 0;
    smelt_tensor inputs[] = {{x, 2, size, SMELT_FLOAT32}, {mean, 2, size, SMELT_FLOAT32},
                             {hidden, 2, size, SMELT_FLOAT32}};
    smelt_tensor outputs[] = {{y, 2, size, SMELT_FLOAT32}, {mean, 2, size, SMELT_FLOAT32},
                              {hidden, 2, size, SMELT_FLOAT32}};
    for (int turn = 0; turn < 3; turn++) {
        if (smelt_model_run(model, inputs, outputs) != SMELT_OK) return 2;
        printf("%g %g\n", mean[0], y[SIZE - 1]);
    }
    outputs[1].data = other; /* now the input stays as it is */
    for (int turn = 0; turn < 2; turn++)
        if (smelt_model_run(model, inputs, outputs) != SMELT_OK) return 3;
    printf("%g %g\n", mean[0], other[0]);
    smelt_model_close(model);
    return 0;
}
"""
DECIDING = r"""
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    smelt_model *model = net_open();
    if (model == NULL) { printf("%s\n", smelt_last_error()); return 1; }
    static float cache[8][8], x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t flag = 1;
    int64_t row = 2, one[] = {1, 1}, line[] = {1, 8}, all[] = {8, 8}, shapes[2][2];
    smelt_tensor inputs[] = {{&flag, 0, NULL, SMELT_BOOL}, {&row, 2, one, SMELT_INT64},
                             {x, 2, line, SMELT_FLOAT32}, {cache, 2, all, SMELT_FLOAT32}};
    for (int turn = 0; turn < 3; turn++) {
        smelt_tensor outputs[] = {{turn == 2 ? NULL : cache, 2, shapes[0], SMELT_FLOAT32},
                                  {NULL, 2, shapes[1], SMELT_FLOAT32}};
        flag = turn == 0;
        row = 2 + turn;
        if (smelt_model_run(model, inputs, outputs) != SMELT_OK) {
            printf("%s\n", smelt_last_error());
            return 2;
        }
        float *made = outputs[0].data;
        printf("%d %g %g\n", outputs[0].data == (void *)cache, made[8 * row], cache[row][0]);
        if (outputs[0].data != (void *)cache) smelt_free(outputs[0].data);
        smelt_free(outputs[1].data);
    }
    smelt_model_close(model);
    smelt_program_trim();
    printf("%lld\n", (long long)smelt_blocks());
    return 0;
}
"""


def printed(exe: Any, source: str, folder: Path) -> list[str]:
    """What a C program prints that uses a model."""
    compiler = next((c for c in ("gcc", "cc", "clang") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("gcc, cc or clang is not installed")
    exe.export_library(folder / f"{exe.name}.so", header=True)
    assert "in place: give both the same data" in (folder / f"{exe.name}.h").read_text()
    (folder / "user.c").write_text(source)
    flags = ["-std=c11", "-Wall", "-Werror", "user.c", f"{exe.name}.so", "-Wl,-rpath,."]
    subprocess.run([compiler, *flags, "-o", "user"], cwd=folder, check=True)
    env = {**os.environ, "SMELT_NUM_THREADS": "1"}
    done = subprocess.run(["./user"], cwd=folder, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def test_a_straight_model(tmp_path: Path) -> None:
    state = {"mean": "mean_after", "hidden": "hidden_after"}
    exe = smelt.compile(nets.averaged(), state=state)
    lines = printed(exe, STRAIGHT, tmp_path)
    assert lines == ["1 1", "1.5 1.5", "1.75 1.75", "1.75 1.875"]


def test_a_program_that_decides(tmp_path: Path) -> None:
    exe = smelt.compile(nets.chosen(8), state={"cache": "after"})
    lines = printed(exe, DECIDING, tmp_path)
    assert lines[:3] == ["1 1 1", "1 -1 -1", "0 -1 0"]
