"""Turns of a loop that are written out share what they load, and keep their sums in registers."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import smelt
from smelt.stages import stage_text
from tests.models.net import Net

A72 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"
A15 = "llvm -mtriple=armv7-linux-gnueabihf -mcpu=cortex-a15 -mattr=+neon"


def product(reduce: int = 64) -> onnx.ModelProto:
    net = Net(1)
    x = net.input("x", (64, reduce))
    return net.model(net.op("MatMul", x, net.normal((reduce, 64))))


def product_of_bytes(reduce: int = 64) -> onnx.ModelProto:
    net = Net(1)
    x = net.input("x", (64, reduce), np.int8)
    w = net.const(net.random.integers(-127, 127, (reduce, 64)), np.int8)
    return net.model(net.op("MatMulInteger", x, w))


def busiest(model: onnx.ModelProto, target: str, word: str) -> list[str]:
    """The instructions of the loop that has an instruction most often."""
    text = stage_text(model, "asm", target=target, options=smelt.Options(threads=1))
    blocks = re.split(r"(?m)^\.LBB\d+_\d+:", text)
    lines = max(blocks, key=lambda b: len(re.findall(rf"\t{word}\b", b))).splitlines()[1:]
    found = [x.strip() for x in lines if re.match(r"\t[a-z]", x)]
    ends = [n for n, x in enumerate(found) if re.match(r"b(\.lt|lt|\.ne|ne)\t", x)]
    return found[: ends[0] + 1]  # what stands behind the branch is no part of the loop


def count(lines: list[str], pattern: str) -> int:
    return len([x for x in lines if re.match(pattern, x)])


def test_rows_are_loaded_once_for_four_steps() -> None:
    lines = busiest(product(), A72, "fmla")
    adds = count(lines, "fmla")
    assert adds == count(lines, r"fmla.*v\d+\.s\[[0-3]\]")
    assert not count(lines, r"ldr\ts|ld1r|dup")
    assert len(lines) <= 1.3 * adds


def test_products_of_bytes_take_a_lane() -> None:
    lines = busiest(product_of_bytes(), A76, "sdot")
    adds = count(lines, "sdot")
    assert adds == count(lines, r"sdot.*v\d+\.4b\[[0-3]\]")
    assert not count(lines, "ushll|uzp1|dup")
    assert len(lines) <= 1.35 * adds


def test_groups_of_bytes_are_words_where_steps_share_nothing() -> None:
    """17 groups are no multiple of four."""
    lines = busiest(product_of_bytes(68), A76, "sdot")
    assert count(lines, "sdot")
    assert not count(lines, "ushll|uzp1")


@pytest.mark.parametrize("reduce", [8, 12, 31, 32, 36, 64])
def test_sums_stay_in_registers_on_arm(reduce: int) -> None:
    """32-bit Arm has 16 registers of 128 bits."""
    lines = busiest(product(reduce), A15, r"vfma\.f32")
    assert count(lines, r"vfma\.f32")
    assert not count(lines, r"v(ldm|stm|ldr|str)\S*\t.*(sp|lr)\b")


@pytest.mark.parametrize("target", ["x86-64-v3", "znver4"])
def test_x86_has_no_such_lanes(target: str) -> None:
    """Its multiplications read a number of memory in all lanes by themselves."""
    words = f"llvm -mtriple=x86_64-linux-gnu -mcpu={target}"
    text = stage_text(product(), "llvm", target=words, options=smelt.Options(threads=1))
    assert ".row" not in text
