"""What passes do, as text: before and after."""

from __future__ import annotations

import re
from typing import Any

import pytest

import smelt

from .programs import relay

T = relay.transform


def program() -> Any:
    x, w, b = (relay.var(n, shape=s) for n, s in
               (("x", (1, 4, 6, 6)), ("w", (4, 4, 3, 3)), ("b", (4,))))  # fmt: skip
    y = relay.nn.conv2d(x, w, padding=1, channels=4, kernel_size=3)
    y = relay.nn.relu(relay.nn.bias_add(y, b))
    return relay.Function([x, w, b], y + y)


def lines(mod: Any) -> list[str]:
    """The body of "main" without types."""
    text = re.sub(r" /\* ty=.*? \*/", "", str(mod["main"]))
    text = re.sub(r": Tensor\[\(.*?\), \w+\]", "", text)
    return [line[2:] for line in re.sub(r" -> .*? \{", " {", text).splitlines()[1:-1]]


BEFORE = """
%0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
%1 = nn.bias_add(%0, %b);
%2 = nn.relu(%1);
add(%2, %2)
"""

AFTER = {
    "ToANormalForm": """
let %x0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
let %x1 = nn.bias_add(%x0, %b);
let %x2 = nn.relu(%x1);
let %x3 = add(%x2, %x2);
%x3
""",
    "CanonicalizeOps": """
%0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
%1 = expand_dims(%b, axis=1, num_newaxis=2);
%2 = add(%0, %1);
%3 = nn.relu(%2);
add(%3, %3)
""",
    "AlterOpLayout": """
%0 = layout_transform(%x, src_layout="NCHW", dst_layout="NHWC");
%1 = layout_transform(%w, src_layout="OIHW", dst_layout="HWIO");
%2 = nn.conv2d(%0, %1, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3], \
data_layout="NHWC", kernel_layout="HWIO");
%3 = nn.bias_add(%2, %b, axis=3);
%4 = nn.relu(%3);
%5 = add(%4, %4);
layout_transform(%5, src_layout="NHWC", dst_layout="NCHW")
""",
    "FuseOps": """
%0 = fn (%p0, Primitive=1) {
  add(%p0, %p0)
};
%3 = fn (%p0_1, %p1, %p2, Primitive=1) {
  %1 = nn.conv2d(%p0_1, %p1, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  %2 = nn.bias_add(%1, %p2);
  nn.relu(%2)
};
%4 = %3(%x, %w, %b);
%0(%4)
""",
    "ToMixedPrecision": """
%0 = cast(%x, dtype="float16");
%1 = cast(%w, dtype="float16");
%2 = nn.conv2d(%0, %1, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3], out_dtype="float32");
%3 = cast(%2, dtype="float16");
%4 = cast(%b, dtype="float16");
%5 = nn.bias_add(%3, %4);
%6 = nn.relu(%5);
add(%6, %6)
""",
}  # fmt: skip


def test_before() -> None:
    assert lines(smelt.IRModule.from_expr(program())) == BEFORE.strip().splitlines()


@pytest.mark.parametrize("name", AFTER)
def test_after(name: str) -> None:
    made = getattr(T, name)()(smelt.IRModule.from_expr(program()))
    assert lines(made) == AFTER[name].strip().splitlines()
