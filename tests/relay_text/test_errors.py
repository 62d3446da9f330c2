"""What a text gets that cannot be read: where, what, and what would be legal."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from smelt.ir.errors import ParseError
from smelt.relax.nodes import constant

from .face import relay

F = "fn (%x: Tensor[(2, 3), float32]) {{ {} }}"

GOLDEN = {
    "fn (%x: Tensor[(2, 3), float32]) {\n  nn.softmax(%x, axsi=1)\n}": """\
from_string:2:18: nn.softmax has no attribute 'axsi'
    nn.softmax(%x, axsi=1)
                   ^^^^
  legal: axis""",
    "fn (%input: int32) {\n  %0 = %input + 1;\n  %inptu * %0\n}": """\
from_string:3:3: %inptu has no value here
    %inptu * %0
    ^^^^^^
  legal: %input""",
    "fn (%x: int32) {\n  %x +\n}": """\
from_string:3:1: expected a value, found '}'
  }
  ^
  legal: %x, %0, @f(%x), add(%x, 1f), (%a, %b), fn (...) {...}, if (...) {...} else {...}""",
    "fn (%x: int32) { %x": """\
from_string:1:16: '{' is never closed
  fn (%x: int32) { %x
                 ^""",
    "add(1, (2, 3]": """\
from_string:1:13: ']' does not close '(' of line 1, column 8
  add(1, (2, 3]
              ^
  legal: )""",
    "fn (%x: Tensor[(2, 3), float32]) -> Tensor[(3, 2), float32] { %x }": """\
from_string:1:61: the body is of type Tensor[(2, 3), float32], the function says \
Tensor[(3, 2), float32]
  fn (%x: Tensor[(2, 3), float32]) -> Tensor[(3, 2), float32] { %x }
                                                              ^""",
    "fn (%x: Tensor[(2, 3), float33]) { %x }": """\
from_string:1:24: expected an element type, found 'float33'
  fn (%x: Tensor[(2, 3), float33]) { %x }
                         ^^^^^^^
  legal: float32, float64, float16""",
    "fn (%x: Tensr[(2, 3), float32]) { %x }": """\
from_string:1:9: no type 'Tensr'
  fn (%x: Tensr[(2, 3), float32]) { %x }
          ^^^^^
  legal: Tensor""",
    "fn (%x: int32) { %0 = %x + 1; %0 = %x; %0 }": """\
from_string:1:31: %0 has a value since line 1, column 18
  fn (%x: int32) { %0 = %x + 1; %0 = %x; %0 }
                                ^^""",
    "fn (%x: int32) { %x + 1; %x }": """\
from_string:1:24: expected '}' behind the result of a block, found ';'
  fn (%x: int32) { %x + 1; %x }
                         ^
  legal: a value that something uses has a name: %0 = ...; or let %x = ...;""",
    "add(5000000000, 1)": """\
from_string:1:5: 5000000000 does not fit int32
  add(5000000000, 1)
      ^^^^^^^^^^
  legal: 5000000000i64""",
    "add(1, 2x)": """\
from_string:1:8: the number 2x ends in 'x'
  add(1, 2x)
         ^^
  legal: bf16, f, f16, f32, f64, h, i16, i32, i64, i8, u16, u32, u64, u8""",
    "/* one /* two */": """\
from_string:1:1: the comment is never closed
  /* one /* two */
  ^^
  legal: */""",
    "let %x = 1; let %y = %x": """\
from_string:1:24: expected ';' at the end of a line, found the end of the text
  let %x = 1; let %y = %x
                         ^""",
    "fn (%x: float32) { %x(1) }": """\
from_string:1:20: %x is no function, but of type float32
  fn (%x: float32) { %x(1) }
                     ^^""",
    "\n\n\u2603": """\
from_string:3:1: the character '\u2603' means nothing here
  \u2603
  ^""",
}

MODULES = {
    "def @main(%x: int32) -> int32 { @mian(%x) }": """\
from_string:1:33: the module has no function @mian
  def @main(%x: int32) -> int32 { @mian(%x) }
                                  ^^^^^
  legal: @main""",
    "def @f(%x: int32) { %x }\ndef @f(%y: int32) { %y }": """\
from_string:2:5: the module has a function @f already
  def @f(%y: int32) { %y }
      ^^""",
    "def @f(%x: int32) { %x }\ndef @main() { @f(1, 2) }": """\
from_string:2:15: @f takes 1 value, 2 given
  def @main() { @f(1, 2) }
                ^^""",
    "type L { Nil, Cons(int32, L) }\ndef @f(%l: L) {\n  match (%l) { Conss(%h, %t) => %h } }": """\
from_string:3:16: no constructor 'Conss'
    match (%l) { Conss(%h, %t) => %h } }
                 ^^^^^
  legal: Cons""",
    "type L { Nil, Cons(int32, L) }\ndef @f(%l: L[int32]) { %l }": """\
from_string:2:12: L takes 0 types, 1 given
  def @f(%l: L[int32]) { %l }
             ^""",
    '#[version = "9.9"]\n1': """\
from_string:1:3: version '9.9' is not known
  #[version = "9.9"]
    ^^^^^^^
  legal: "0.0.5\"""",
    "@T.prim_func\ndef kernel(): pass": """\
from_string:1:1: a script is no Relay text
  @T.prim_func
  ^^^^^^^^^^^^
  legal: smelt.script.parse reads what mod.script() writes""",
}


@pytest.mark.parametrize("text", GOLDEN)
def test_an_expression_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        relay.parse_expr(text)
    assert str(caught.value) == GOLDEN[text]


@pytest.mark.parametrize("text", MODULES)
def test_a_module_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        relay.parse(text)
    assert str(caught.value) == MODULES[text]


def test_an_operator_that_is_not_known() -> None:
    with pytest.raises(ParseError) as caught:
        relay.parse_expr(F.format("\n  nn.sofmax(%x)\n"))
    head, line, mark, legal = str(caught.value).split("\n")
    assert head == "from_string:2:3: no operator 'nn.sofmax'"
    assert (line, mark) == ("    nn.sofmax(%x)", "    ^^^^^^^^^")
    assert legal.startswith("  legal: nn.softmax")


def test_what_an_operator_refuses_has_its_place() -> None:
    for text, what in {
        "nn.dense(%x, %x, units=7)": "1:36: nn.dense: units=7, but the weight has 2 rows",
        'nn.softmax(%x, axis="one")': "1:36: nn.softmax:",
        "add(%x)": "1:36: add takes 2 operands (lhs, rhs), 1 given",
        "%x + 1": "1:39: add: ",
        "strided_slice(%x, begin=[1, flase])": "1:64: 'flase' is no value, and no size",
    }.items():
        with pytest.raises(ParseError) as caught:
            relay.parse_expr(F.format(text))
        assert str(caught.value).startswith(f"from_string:{what}")


def test_nothing_hostile_gets_far() -> None:
    for text in (
        "(" * 5_000 + ")" * 5_000,
        "fn () {" * 200 + "1" + "}" * 200,
        "fn (%x: " + "fn () -> " * 5_000 + "int32) { %x }",
        "[" * 50,
        "1" * 10_000,
        F.format("%x.99999999999999999999"),
        "fn (%x: Tensor[(" + "9" * 5_000 + ",), float32]) { %x }",
        'fn (%"\\ud8": int32) { 1 }',
        "nn.relu(%x, __class__=1)",
        "\0",
        "%",
        "#[",
        "def",
        "type",
        "extern",
        "def @f",
        "def @f()",
        "type L",
        "meta[relay.Constant][",
        "match",
    ):
        with pytest.raises(ParseError):
            relay.parse(text)


def test_tuples_do_not_double_for_ever() -> None:
    lines = [f"%{i} = (%{i - 1}, %{i - 1});" for i in range(1, 60)]
    with pytest.raises(ParseError, match="a tuple of more than 16384 values"):
        relay.parse_expr("%0 = 1f; " + " ".join(lines) + " %59")
    deep = [f"%{i} = (%{i - 1},);" for i in range(1, 10_000)]
    with pytest.raises(ParseError, match="from_string:1:"):
        relay.parse_expr("%0 = 1f; " + " ".join(deep) + " %9999")


def test_every_beginning_of_a_text_is_read_or_refused() -> None:
    text = relay.astext(relay.parse("""
        type L[A] { Nil, Cons(A, L[A]) }
        def @f[A](%l: L[A], %n: Tensor[(n, 2), float32], Inline=1) -> int32 {
          let %k = if (True) { 1 } else { -2 };
          match? (%l) { Cons(_, %t) => @f(%t, %n), Nil => %k + 1, }
        }"""))  # fmt: skip
    refused = [end for end in range(len(text)) if not readable(text[:end])]
    assert len(refused) > len(text) // 2


def readable(text: str) -> bool:
    try:
        relay.parse(text)
    except ParseError:
        return False
    return True


def entry(**changes: Any) -> str:
    data = base64.b64encode(bytes(8)).decode()
    made = {"dtype": "float32", "shape": [2], "data": data, **changes}
    return "meta[relay.Constant][0]\n#[metadata]\n" + json.dumps(
        {"format": 1, "relay.Constant": [made]}
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (entry(shape=[3]), "relay.Constant[0]: 8 bytes; float32 of shape [3] has 12"),
        (entry(shape=[2**62]), f"8 bytes; float32 of shape [{2**62}] has {2**64}"),
        (entry(shape=[-2]), "has an extent that is no number from 0 on"),
        (entry(shape=[True, 2]), "has an extent that is no number from 0 on"),
        (entry(dtype="object"), "'object' is no element type"),
        (entry(data="no base64!"), '"data" is no base64'),
        (entry(dtype="bool", data="AgA="), "a byte is neither 0 nor 1"),
        (entry(name=3), '"name" is 3; a text is legal'),
        (entry(data=None), '"data" is None; a str is legal'),
        (entry().replace('"format": 1', '"format": 2'), '"format" is 2; legal: 1'),
        ("1\n#[metadata]\n{", "#[metadata] is no JSON"),
        ("1\n#[metadata]\n" + "[" * 100_000, "#[metadata]"),
        ("1\n#[metadata]\n[]", "\"format\" is 'list'; legal: 1"),
    ],
)
def test_constants_are_checked(text: str, what: str) -> None:
    with pytest.raises(ParseError) as caught:
        relay.parse_expr(text)
    assert what in str(caught.value)


def test_constants_that_are_missing_are_listed_at_once() -> None:
    w = [constant(relay.const([1.0, 2.0]).data + i) for i in range(3)]
    text = relay.Tuple(w).astext(show_meta_data=False)
    with pytest.raises(ParseError) as caught:
        relay.parse_expr(text, "net.relay", meta={"relay.Constant": [w[0].data]})
    assert str(caught.value) == (
        "net.relay: the text refers to 2 constants that it does not hold: meta[relay.Constant] "
        '1 (line 2), 2 (line 2); give meta={"relay.Constant": [array, ...]}, as relay.meta_table '
        "makes it, or the text that astext(show_meta_data=True) prints"
    )
    with pytest.raises(ParseError, match="legal: "):
        relay.parse_expr(text, meta={"weights": []})
