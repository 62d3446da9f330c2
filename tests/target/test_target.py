"""Target strings, tags and dictionaries."""

import json
import pickle
from typing import Any

import pytest

from smelt.ir.errors import TargetError
from smelt.target import Target, TargetKind

# The literals of the classic programs.
RPI4 = "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+neon,+fp-armv8,+crc"
M4 = (
    "c -keys=arm_cpu -mcpu=cortex-m4 -march=armv7e-m "
    "-mfloat-abi=hard -mfpu=fpv4-sp-d16 -runtime=c -system-lib"
)
EXAMPLES: list[str] = [
    "llvm",
    "llvm -mcpu=native",
    "llvm -mcpu native -num-cores 4",
    RPI4,
    "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+neon",
    "cuda -arch=sm_53",
    M4,
    "hexagon -mcpu=v68",
    "llvm -libs=mkl,cblas -opt-level=2 -fast-math=0 -model='my board'",
    "ext_dev",
    *Target.list_tags(),
]


def test_options_can_be_read() -> None:
    t = Target(RPI4)
    assert t.kind.name == "llvm"
    assert t.keys == ("arm_cpu", "cpu")
    assert (t.mtriple, t.mattr) == ("aarch64-linux-gnu", ("+neon", "+fp-armv8", "+crc"))
    assert (t.mcpu, t.device_name, t.model, t.tag) == ("", "arm_cpu", "unknown", "")
    t = Target(M4)
    assert (t.kind.name, t.keys, t.mcpu) == ("c", ("arm_cpu", "cpu"), "cortex-m4")
    assert t.attrs["mfloat-abi"] == "hard"
    assert t.attrs["mfpu"] == "fpv4-sp-d16"
    assert t.attrs["march"] == "armv7e-m"
    assert t.attrs["runtime"] == "c"
    assert t.attrs["system-lib"] is True
    assert Target("cuda -arch=sm_53").arch == "sm_53"
    assert Target("hexagon -mcpu=v68").keys == ("hexagon", "cpu")
    assert Target("llvm -num-cores=4").attrs["num-cores"] == 4
    assert Target("llvm -system-lib=0").attrs["system-lib"] is False
    assert Target("llvm -system-lib -mcpu=native").mcpu == "native"
    assert Target("llvm -libs=mkl").libs == ("mkl",)


@pytest.mark.parametrize("text", EXAMPLES)
def test_round_trips(text: str) -> None:
    t = Target(text)
    for again in (
        Target(t),
        Target(t.export()),
        Target(json.dumps(t.export())),
        Target(str(t), t.host),
        pickle.loads(pickle.dumps(t)),
    ):
        assert again == t
        assert hash(again) == hash(t)
        assert again.export() == t.export()
        assert again.keys == t.keys
        assert str(again) == str(t)


def test_equality() -> None:
    assert Target("llvm -mcpu=native") == Target({"kind": "llvm", "mcpu": "native"})
    assert Target("llvm -mcpu=a -mabi=b") == Target("llvm -mabi=b -mcpu=a")
    assert hash(Target("llvm -mcpu=a -mabi=b")) == hash(Target("llvm -mabi=b -mcpu=a"))
    assert Target("llvm") != Target("llvm -mcpu=native")
    assert Target("cuda") != Target("cuda", host="llvm")
    assert Target("llvm") != "llvm"
    assert Target("llvm").kind == Target("llvm -mcpu=native").kind
    assert isinstance(Target("c").kind, TargetKind)
    assert (str(Target("c").kind), repr(Target("c").kind)) == ("c", "TargetKind('c')")


def test_hosts() -> None:
    t = Target("cuda -arch=sm_80", host="llvm -mcpu=native")
    assert t.host == Target("llvm -mcpu=native")
    assert t.with_host("llvm").host == Target("llvm")
    assert Target(t, host="c").host == Target("c")
    assert Target({"kind": "cuda", "host": "llvm"}).host == Target("llvm")
    assert repr(t) == "Target('cuda -arch=sm_80', host=Target('llvm -mcpu=native'))"


def test_copies_with_other_options() -> None:
    t = Target("llvm -mcpu=native").with_attrs(mattr=("+avx2",), num_cores=2)
    assert str(t) == "llvm -mcpu=native -mattr=+avx2 -num-cores=2"


def test_tags() -> None:
    t = Target("raspberry-pi/4b-aarch64")
    assert (t.kind.name, t.mcpu, t.attrs["num-cores"]) == ("llvm", "cortex-a72", 4)
    assert (t.tag, t.keys) == ("raspberry-pi/4b-aarch64", ("arm_cpu", "cpu"))
    assert Target("raspberry-pi/4b-aarch64 -num-cores=2").attrs["num-cores"] == 2
    assert Target({"tag": "raspberry-pi/4b-aarch64"}) == t
    nano = Target("nvidia/jetson-nano")
    assert nano.arch == "sm_53"
    assert nano.host is not None
    assert nano.host.mcpu == "cortex-a57"


def test_the_target_of_a_block() -> None:
    assert Target.current() is None
    with Target("llvm") as outer:
        assert Target.current() is outer
        with Target("c") as inner:
            assert Target.current() is inner
        assert Target.current() is outer
    with pytest.raises(TargetError) as caught:
        Target.current(allow_none=False)
    assert str(caught.value) == ("there is no current target: write `with Target(...):` around it")


KINDS = (
    "llvm, c, cuda, nvptx, rocm, opencl, metal, vulkan, webgpu, hexagon, ext_dev, hybrid, composite"
)
EXAMPLE = '; an example: "llvm -mcpu=native"'
ERRORS: list[tuple[Any, str]] = [
    ("", 'the target is empty; e.g. "llvm -mcpu=native"'),
    ("lvm", f"unknown target kind 'lvm'; nearest: llvm; kinds: {KINDS}{EXAMPLE}"),
    (3, "a target is a string or a dictionary, not an int"),
    ({"mcpu": "native"}, f"unknown target kind None; kinds: {KINDS}{EXAMPLE}"),
    (
        "hybrid -sistem-lib",
        "target kind 'hybrid' has no option 'sistem-lib'; nearest: system-lib; options: device, "
        "from_device, host, keys, libs, model, system-lib, tag, target_device_type",
    ),
    ("llvm native", "target 'llvm native': 'native' is no option; options start with '-'"),
    ("llvm -mcpu", "target 'llvm -mcpu': the option 'mcpu' needs a value"),
    ("llvm -mcpu=", "target option 'mcpu' takes a word, not ''"),
    ("llvm -mcpu=a -mcpu=b", "target 'llvm -mcpu=a -mcpu=b': the option 'mcpu' is given twice"),
    ("llvm -model='x", 'target "llvm -model=\'x": No closing quotation'),
    ("llvm -num-cores=many", "target option 'num-cores' takes an integer, not 'many'"),
    ("llvm -system-lib=maybe", "target option 'system-lib' is on (1) or off (0), not 'maybe'"),
    (
        "llvm -mattr=avx2",
        "target option 'mattr': 'avx2' says neither on nor off; write +avx2 or -avx2",
    ),
    ({"kind": "llvm", "keys": 3}, "target option 'keys' takes a list of words, not 3"),
    (
        '{"kind": llvm}',
        "target '{\"kind\": llvm}': this is no JSON: Expecting value: line 1 column 10 (char 9)",
    ),
]


@pytest.mark.parametrize(("spec", "text"), ERRORS, ids=[t[:40] for _, t in ERRORS])
def test_errors(spec: Any, text: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target(spec)
    assert str(caught.value) == text


def test_an_unknown_tag_names_the_nearest() -> None:
    with pytest.raises(TargetError) as caught:
        Target("raspberry-pi/4b-arch64")
    assert str(caught.value).startswith(
        "unknown target tag 'raspberry-pi/4b-arch64'; nearest: raspberry-pi/4b-aarch64, "
    )
