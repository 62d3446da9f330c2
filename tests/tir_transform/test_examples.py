"""Every pass has an example in its docstring, and it is true."""

from __future__ import annotations

import inspect

import pytest

from smelt.ir.module import IRModule
from smelt.tir.equal import assert_structural_equal
from smelt.tir.interpret import InterpretError
from smelt.tir.verify import verify

from .support import Example, arguments, constructors, examples, made, program, result, same

SIZES = (0, 3, 6)
# no text shows what they do: their own tests below do
WITHOUT = {"ConvertSSA", "Filter", "VerifyMemory"}
# what they give may run where what they get ends in an error
MENDS = {"RewriteUnsafeSelect", "SkipAssert"}
EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_the_example_is_what_the_pass_does(example: Example) -> None:
    before = program(example.before)
    after = made(example.made)(before)
    assert_structural_equal(verify(after), program(example.after))
    if example.name == "AnnotateEntryFunc" or example.made.startswith(("Apply", "BindTarget")):
        return
    for size in SIZES:
        given = arguments(before, size=size)
        try:
            result(before, given)
        except InterpretError:
            if example.name in MENDS:
                result(after, given)
                continue
            with pytest.raises(InterpretError):
                result(after, given)
            continue
        same(after, before, given, close=example.name == "LowerIntrin")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_a_module_and_a_function_give_the_same(example: Example) -> None:
    before = program(example.before)
    mod = IRModule({"main": before})
    new = made(example.made)(mod)
    assert_structural_equal(new["main"], made(example.made)(before))
    assert mod["main"] is before, "the module that is given stays as it is"


def test_every_pass_has_an_example_or_says_why_there_is_nothing_to_do() -> None:
    shown = {e.name for e in EXAMPLES}
    for name, fn in constructors().items():
        if name in shown | WITHOUT:
            continue
        text = inspect.cleandoc(fn.__doc__ or "")
        assert text.startswith("Nothing to do: "), name
        before = program('def main(A: T.Buffer((2,), "float32")):\n    A[0] = 1.0')
        assert fn()(before) is before
