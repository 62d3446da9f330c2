"""Every misuse is one ParseError: the place, what is wrong, and what would be legal there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from smelt.ir.errors import ParseError
from smelt.script import parse as parse_any
from smelt.tir.parser import parse

Golden = Callable[[str], None]
HEAD = 'def f(A: T.Buffer((4, 8), "float32"), n: T.int64, h: T.handle):\n'
BLOCK = '    for i in range(4):\n        with T.block("B"):\n            v = T.axis.spatial(4, i)\n'

BODIES = {
    "names": [
        "    A[0, 0] = T.epx(A[0, 1])",
        "    A[0, 0] = AA[0, 1]",
        "    A[0, 0] = T.grid(4)",
        "    T.alloc_bufer((4,))",
        "    T.alloc_buffer((4,))",
        "    x = T.reads(A[0, 0])",
        "    A[0, 0] = T.exp",
        "    T.attr(0, 'pragma', 1)",
        "    T.smelt.call_kernal('f')",
        "    A[0, 0] = A.size",
        "    x = T.axis.spacial(4, 0)",
        "    T.launch_thread('threadIdx.x', 32)",
    ],
    "values": [
        "    A[0, 0] = A + 1.0",
        "    A[0] = 1.0",
        "    A[0, 1.5] = 1.0",
        "    A[0, 0] = n",
        "    A[0, 0] = A[0, 0] ** 2",
        "    A[0, 0] = A[0, 0] & A[0, 1]",
        "    A[0, 0] = T.exp(n)",
        "    A[0, 0] = T.exp()",
        "    A[0, 0] = T.max(A[0, 0], A[0, 1], A[0, 2])",
        "    A[0, 0] = T.select(n, 1.0, 2.0)",
        "    A[0, 0] = T.cast('float31', A[0, 0])",
        "    A[0, 0] = T.cast(value=A[0, 0])",
        "    A[0, 0] = T.cast('int8', A[0, 0], A[0, 0], x=1)",
        "    A[0, 0] = T.cast(dtype='int8', value=A[0, 0], bits=8)",
        "    A[0, 0] = T.float32('infinite')",
        "    A[0, 0] = T.int8(300)",
        "    A[0, 0] = 'one'",
        "    A[0, 0] = [x for x in A]",
        "    A[0, 0] = 1 / 0",
        "    A[0, 0] = A[0, 0 : n]",
        "    A[0, 0:4] = A[0, 0]",
        "    A[0, T.ramp(0, 1, n)] = 0.0",
        "    A[0, 0] = max(A[0, 0], 0.0)",
        "    A[0, 0] = A[0, 0](1)",
        "    A[0, 0] = (1, 2)[3]",
        "    A[0, 0] = T.shuffle(A[0, 0:4], A[0, 4:8], (0, 1, 2, 8))",
        "    A[0, 0] = T.call_intrin('float32', 'tir.epx', A[0, 0])",
        "    A[0, 0] = A[0, 0] in A",
        "    A[0, 0] = h + 1",
        "    A[0, 0] = 2 ** 0.5 ** 'x'",
    ],
    "statements": [
        "    return A",
        "    n[0] = 1",
        "    A = 3.0",
        "    A[0, 0] = B[0, 0] = 1.0",
        "    x, y = 1, 2",
        "    A[0, 0]",
        "    T.evaluate()",
        "    if n:\n        pass",
        "    while A[0, 0]:\n        pass",
        "    assert n > 0, n",
        "    break",
        "    import os",
        "    with open('x'):\n        pass",
        "    with T.block('a'), T.inti():\n        pass",
        "    x = 0.0\n    for i in range(4):\n        x = x + A[i, 0]",
        "    x: float = 0.0",
        "    x: T.int32 = 1.5",
        "    x: T.int32 = n",
        "    with T.let(1.0):\n        pass",
        "    with T.allocate((4,), 'float32'):\n        pass",
        "    A[0, 0] = = 1.0",
        "    x = T.int64()\n    A[0, x] = 1.0",
    ],
    "loops": [
        "    for i in enumerate(3):\n        pass",
        "    for i in n:\n        pass",
        "    for i in T.seriel(3):\n        pass",
        "    for i in range(0, 8, 2):\n        pass",
        "    for i, j in range(4):\n        pass",
        "    for i, j in T.grid(4):\n        pass",
        "    for i in T.serial(3, grain=2):\n        pass",
        "    for i in T.serial(3, annotations=[1]):\n        pass",
        "    for i in T.serial(2.5):\n        pass",
        "    for i in T.thread_binding(32):\n        pass",
        "    for i in range(4):\n        pass\n    else:\n        pass",
        "    for A[0, 0] in range(4):\n        pass",
        "    for i in T.parallel():\n        pass",
    ],
    "blocks": [
        "    T.reads(A[0, 0])",
        "    v = T.axis.spatial(4, n)",
        "    with T.init():\n        pass",
        "    with T.block(3):\n        pass",
        "    with T.block('a') as vi:\n        pass",
        "    with T.block('root'):\n        pass\n    T.block_attr({'a': 1})",
        BLOCK + "            v = T.axis.spatial(4)",
        BLOCK + "            w = T.axis.spatial((0, 2, 4), i)",
        BLOCK + "            w = T.axis.spatial(2.5, i)",
        BLOCK + "            w = T.axis.scan(4, i)",
        BLOCK + "            v, w = T.axis.remap('SX', [i, i])",
        BLOCK + "            v, w = T.axis.remap('SS', [i])",
        BLOCK + "            v, w = T.axis.remap('SS', [i, n])",
        BLOCK + "            T.where(i)",
        BLOCK + "            T.where(i < 2)\n            T.where(i < 3)",
        BLOCK + "            T.reads(A[v])",
        BLOCK + "            T.reads(A[v, 0:8:2])",
        BLOCK + "            T.reads(n)",
        BLOCK + "            T.block_attr({1: 2})",
        BLOCK + "            T.func_attr({'a': 2})",
        BLOCK + "            T.block_attr({'a': A})",
        BLOCK + "            B = T.match_buffer(A[0:2, 0:2], (2, 4))",
        BLOCK + "            vi = 1\n            T.axis.spatial(4, i)",
    ],
    "buffers": [
        "    B = T.alloc_buffer()",
        "    B = T.alloc_buffer((4,), 'float33')",
        "    B = T.alloc_buffer((4,), 'float32x4')",
        "    B = T.alloc_buffer((4, 2.5))",
        "    B = T.alloc_buffer((4, -1))",
        "    B = T.alloc_buffer((4, 4), strides=(1,))",
        "    B = T.alloc_buffer((4,), offset=3)",
        "    B = T.alloc_buffer((4,), elem_offset=8)",
        "    B = T.match_buffer(A[0:2, 4:6], (2, 2), offset_factor=8)",
        "    B = T.alloc_buffer((4,), buffer_type='auto_broadcast')",
        "    B = T.Buffer((4,), 'float32')",
        "    B = T.Buffer((33,), 'float32', data=A.data)",
        "    B = T.match_buffer(n, (4,))",
        "    B = T.match_buffer(A, (4,))",
        "    B = T.match_buffer(h, (4,))\n    T.evaluate(h)",
        "    B = T.allocate((4,), 'float32', condition=False)",
    ],
}


@pytest.mark.parametrize("about", BODIES)
def test_bodies(about: str, golden: Golden) -> None:
    texts = []
    for body in BODIES[about]:
        with pytest.raises(ParseError) as caught:
            parse(f"{HEAD}{body}\n", "kernel.py")
        texts.append(str(caught.value) + "\n")
    golden("\n".join(texts))


FUNCTIONS = [
    "def f(A):\n    pass",
    "def f(A: float):\n    pass",
    'def f(A: T.Buffr((4,), "float32")):\n    pass',
    "def f(A: T.Buffer):\n    pass",
    'def f(A: T.Buffer(dtype="float32")):\n    pass',
    'def f(A: "T.Buffer((4,"):\n    pass',
    "def f(n: T.int64, n: T.int64):\n    pass",
    "def f(n: T.int64 = 3):\n    pass",
    "def f(*n: T.int64):\n    pass",
    "def f(*, n: T.int64):\n    pass",
    "def f(n: T.int64) -> T.int64:\n    pass",
    "@T.prim_func(inline=True)\ndef f():\n    pass",
    "@T.prim_func(private=1)\ndef f():\n    pass",
    "x = 3",
    "def f():\n    pass\ndef g():\n    pass",
    "def f(:\n    pass",
    "def f():\n    T.func_attr(3)",
    'def f():\n    T.func_attr({"global_symbol": 3})',
    "def f():\n    x = 'übertragen' + T.epx(1)",
    f"def f():\n    T.evaluate({'(' * 300}1{')' * 300})",
]


def test_functions(golden: Golden) -> None:
    texts = []
    for text in FUNCTIONS:
        with pytest.raises(ParseError) as caught:
            parse(text, "kernel.py")
        texts.append("\n".join([line[:120] for line in str(caught.value).split("\n")]) + "\n")
    golden("\n".join(texts))


G = "    @R.function\n    def g(x: R.Tensor((4,), 'float32')):\n        return "
MODULES = [
    "class M:\n    x = 3",
    "class M:\n    pass\nclass N:\n    pass",
    "x = 3\nclass M:\n    pass",
    "class M:\n    @T.prim_func\n    def f(A: T.Buffer((4,))):\n        A[0] = T.epx(A[0])",
    f"class M:\n{G}R.rleu(x)",
    f"class M:\n{G}R.call_tir(g2, (x,), R.Tensor((4,), 'float32'))",
    f"class M:\n{G}x\n{G}x",
    "class M:\n    I.module_atrs({'a': 1})",
]


def test_modules(golden: Golden) -> None:
    texts = []
    for text in MODULES:
        with pytest.raises(ParseError) as caught:
            parse_any(text, path="module.py")
        texts.append(str(caught.value) + "\n")
    golden("\n".join(texts))


def test_what_a_call_gives_is_not_called() -> None:
    text = "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    A[0] = T.exp(A[0])(1.0)\n"
    with pytest.raises(ParseError, match="a value of float32 cannot be called"):
        parse(text)
