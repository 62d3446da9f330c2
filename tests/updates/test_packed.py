"""Functions registered in Python, called by graphs: they give results, write to them, or update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relax
from smelt.ir.errors import ParseError, TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Var
from smelt.relax.verify import verify
from smelt.runtime import InputError
from smelt.script import from_source

F = 'R.Tensor((4,), "float32")'
K = 'R.Tensor(("k",), "float32")'
HEAD = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), n: R.Tensor((k, 4), "float32")):
        k = T.int64()
"""


def twice(x: Any) -> Any:
    return x.numpy() * 2


def add_to(x: Any, y: Any, out: Any) -> None:
    out.copyfrom(x.numpy() + y.numpy())


def bump(x: Any, y: Any) -> Any:
    x[:] = x.numpy() + y.numpy()
    return x


def both(x: Any, y: Any) -> Any:
    y[:] = y.numpy() - 1
    return [x.numpy() + 7]


def wrong(x: Any) -> Any:
    return x.numpy()[:2]


def many(x: Any) -> Any:
    return (x, x)


def sums(n: Any) -> Any:
    return n.numpy().sum(1)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    functions = (twice, add_to, bump, both, wrong, many, sums)
    for f in functions:
        smelt.register_func(f"test.{f.__name__}", f)
    yield
    for f in functions:
        smelt.runtime.packed.remove_global_func(f"test.{f.__name__}")


def module(*lines: str) -> IRModule:
    text = HEAD.replace("        k = T.int64()\n", "").replace("(k, 4)", '("k", 4)')
    made = from_source(text + "\n".join([f"        {line}" for line in lines]) + "\n")
    assert isinstance(made, IRModule)
    return made


PROGRAMS = {
    "pure": [f'a = R.call_pure_packed("test.twice", x, sinfo_args={F})', "r = R.add(a, x)",
             "return r"],
    "of any size": [f'r = R.call_pure_packed("test.sums", n, sinfo_args={K})', "s = R.add(r, r)",
                    "return s"],
    "written": [f'r = R.call_dps_packed("test.add_to", (x, x), out_sinfo={F})', "return r"],
    "updated": ['a = R.multiply(x, x)',
                f'b = R.call_inplace_packed("test.bump", a, x, inplace_indices=0, sinfo_args={F})',
                "r = R.add(b, b)", "return r"],
    "one of two": ['a = R.add(x, x)',
                   f'r = R.call_inplace_packed("test.both", x, a, inplace_indices=[-1, 1], '
                   f"sinfo_args=[{F}, {F}])", "return r"],
}  # fmt: skip


def arrays(made: Any) -> list[np.ndarray]:
    return [np.asarray(m) for m in (made if isinstance(made, tuple | list) else [made])]


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_machines_call_them(name: str) -> None:
    mod = module(*PROGRAMS[name])
    verify(mod)
    again: Any = from_source(mod.script())
    assert again.script() == mod.script()
    x, n = np.arange(1, 5, dtype="float32"), np.arange(8, dtype="float32").reshape(2, 4)
    a = x * 2
    wanted = {
        "pure": [3 * x], "of any size": [2 * n.sum(1)], "written": [2 * x],
        "updated": [2 * (x * x + x)], "one of two": [x + 7, a - 1],
    }[name]  # fmt: skip
    exe: Any = smelt.compile(again)
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), smelt.cpu())
    runs = (lambda *v: interpret(mod["main"], *v, module=mod), exe, machine["main"])
    for run in runs:
        given = x.copy()
        for found, want in zip(arrays(run(given, n)), wanted, strict=True):
            np.testing.assert_allclose(found, want)
        np.testing.assert_array_equal(given, x)
    assert exe.metadata["python"] == ["the operator packed"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("test.wrong", r"test.wrong: result 0 is float32\[2\]; float32\[4\] needed"),
        ("test.many", "test.many gave 2 results, 1 needed"),
        ("test.twin", "no function 'test.twin'; nearest: test.twice"),
        ("test.bump", "missing 1 required positional argument"),
    ],
)
def test_what_they_give_has_to_fit(line: str, message: str) -> None:
    mod = module(f'r = R.call_pure_packed("{line}", x, sinfo_args={F})', "return r")
    exe = smelt.compile(mod)
    with pytest.raises(InputError, match=message):
        exe(np.ones(4, "float32"), np.ones((1, 4), "float32"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['r = R.call_pure_packed("test.twice", x)', "return r"],
         "expected R.call_pure_packed of a name in quotes, operands and the type"),
        (['r = R.call_dps_packed("test.sums", (n,), out_sinfo=R.Tensor(("k",), "float32"))',
          "return r"], "sizes of results that it writes to have to be numbers"),
        ([f'r = R.call_inplace_packed("f", x, inplace_indices=[1], sinfo_args={F})', "return r"],
         "the index of result 0 is 1; legal: -1, or an operand's from 0 to 0"),
        ([f'r = R.call_inplace_packed("f", x, sinfo_args={F})', "return R.add(x, r)"],
         "'x' is used after f has updated it in place"),
        (['r = R.call_packed("f", x)', "return r"], "R.call_packed may do anything"),
        ([f'r = R.call_pure_packed("f", x, sinfo_args={F}, inplace_indices=0)', "return r"],
         "R.call_pure_packed has no argument 'inplace_indices'"),
    ],
)  # fmt: skip
def test_wrong_texts(lines: list[str], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        module(*lines)


def test_the_builders() -> None:
    t = tensor_type((4,), "float32")
    x = Var("x", t)
    assert relax.op.call_pure_packed("f", x, sinfo_args=t).type is t
    assert relax.op.call_dps_packed("f", [x], t).attrs["fresh"]
    assert relax.op.call_inplace_packed("f", x, x, inplace_indices=1, sinfo_args=t).type is t
    with pytest.raises(TypeMismatch, match="the result's type has to be given"):
        relax.op.call_pure_packed("f", x)
    with pytest.raises(TypeMismatch, match="the function is 3; its name is legal"):
        relax.op.call_pure_packed(3, x, sinfo_args=t)
