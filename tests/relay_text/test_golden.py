"""The texts of typical programs, word by word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from smelt.ir.equal import structural_equal
from smelt.ir.module import IRModule
from smelt.relax.transform.fuse_ops import fuse_ops

from .face import relay
from .programs import PROGRAMS, control, resnet_block

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda f: f.__name__)
def test_a_typical_program(make: Callable[[], IRModule]) -> None:
    mod = make()
    text = mod.astext(show_meta_data=False)
    assert text == (GOLDEN / f"{make.__name__}.relay").read_text(encoding="utf-8")
    assert structural_equal(relay.parse(mod.astext()), mod)
    assert structural_equal(relay.parse(text, meta=relay.meta_table(mod)), mod)
    assert relay.parse(mod.astext()).astext() == mod.astext()


def test_what_prints_what() -> None:
    mod = resnet_block()
    whole, bare = mod.astext(), mod.astext(show_meta_data=False)
    assert whole.startswith(bare)
    assert whole[len(bare) :].startswith(
        '\n#[metadata]\n{\n  "format": 1,\n  "relay.Constant": [\n'
    )
    assert bare == f'#[version = "0.0.5"]\n{mod}'
    assert str(mod).replace("def @main(", "fn (", 1) == str(mod["main"]) + "\n"
    assert relay.astext(mod["main"]) == mod["main"].astext()
    assert mod["main"].astext(show_meta_data=False) == f'#[version = "0.0.5"]\n{mod["main"]}\n'


def test_values_alone() -> None:
    x = relay.var("x", shape=(2,))
    assert str(x) == "free_var %x: Tensor[(2,), float32];\n%x"
    assert str(relay.const(1.5)) == "1.5f"
    assert str(relay.const(True)) == "True"
    assert str(relay.Tuple([relay.const(1, "int64")])) == "(1i64,) /* ty=(int64,) */"
    assert str(relay.exp(x)) == (
        "free_var %x: Tensor[(2,), float32];\nexp(%x) /* ty=Tensor[(2,), float32] */"
    )


def test_kernels_of_the_module_are_read_back() -> None:
    mod = fuse_ops(resnet_block())
    read = relay.parse(mod.astext())
    assert structural_equal(read, mod)
    assert [f.attrs.get("primitive") for f in read.functions.values()].count(True) >= 2


def test_what_a_branch_alone_uses_stands_there() -> None:
    lines = [line.strip() for line in str(control()).splitlines()]
    at = lines.index("let %v = if (%flag) {")
    assert lines[at - 1].startswith("%0 = exp(%x)")
    assert lines[at + 1].startswith("%1 = sqrt(%0)")
