"""Pieces of smelt-server, under sanitizers: digests beside published ones, JSON beside Python's."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.rpc_servers import SANITIZERS
from smelt.runtime.compilers import find_compiler
from smelt.runtime.native import source_folder


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of parts.c."""
    made, server = tmp_path_factory.mktemp("parts") / "parts", source_folder() / "tools" / "server"
    sources = [Path(__file__).with_name("parts.c"), server / "json.c", server / "sha256.c"]
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", *SANITIZERS.split(), f"-I{server}"]
    subprocess.run([*find_compiler(), *flags, *map(str, sources), "-o", made], check=True)
    return made


def asked(parts: Path, *lines: Sequence[str | bytes]) -> list[str]:
    """What the program answers, to each line: what is asked, its operands."""
    said = []
    for what, *operands in lines:
        data = [o.encode() if isinstance(o, str) else o for o in operands]
        said.append(" ".join([str(what), *["x" + d.hex() for d in data]]))
    done = subprocess.run([parts], input="\n".join(said) + "\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return done.stdout.splitlines()


def test_digests_are_the_published_ones(parts: Path) -> None:
    """Sources: FIPS 180-4's examples of NIST; RFC 4231, test cases 1, 2, 6 and 7."""
    found = asked(
        parts,
        ("sha256", "abc"),
        ("sha256", ""),
        ("sha256", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
        ("hmac", b"\x0b" * 20, "Hi There"),
        ("hmac", "Jefe", "what do ya want for nothing?"),
        ("hmac", b"\xaa" * 131, "Test Using Larger Than Block-Size Key - Hash Key First"),
        ("hmac", b"\xaa" * 131, "This is a test using a larger than block-size key and a larger "
         "than block-size data. The key needs to be hashed before being used by the "
         "HMAC algorithm."),
    )  # fmt: skip
    assert found == [
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
    ]


def test_digests_of_all_lengths(parts: Path) -> None:
    rng = random.Random(0)
    texts = [rng.randbytes(n) for n in (*range(200), 4096, 100_000)]
    found = asked(parts, *[("sha256", t) for t in texts])
    assert found == [hashlib.sha256(t).hexdigest() for t in texts]
    keys = [rng.randbytes(n) for n in range(1, 140)]
    found = asked(parts, *[("hmac", k, t) for k, t in zip(keys, texts, strict=False)])
    assert found == [hmac.digest(k, t, "sha256").hex() for k, t in zip(keys, texts, strict=False)]


def read(text: bytes) -> object:
    """What Python reads; None where it is no object."""
    try:
        found = json.loads(text.decode())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def equal(a: object, b: object) -> bool:
    """As they are; numbers by their values, those that are none, too."""
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if type(a) in (int, float) and type(b) in (int, float):
        return a == b or str(float(str(a))) == str(float(str(b)))
    return a == b and type(a) is type(b)


KNOWN = [
    b"{}", b'{"a": 1}', b'{"a": [1, -2.5e3, true, false, null, "x"]}', b'{"a": 1,}', b'{"a" 1}',
    b'{"a": 01}', b'{"a": 1.}', b'{"a": .5}', b'{"a": +1}', b'{"a": 1e}', b'{"a": -}', b"[]",
    b'{"a": "\\u00e9\\u4e2d\\ud83d\\ude00"}', '{"a": "é中😀"}'.encode(), b'{"a": "\\ud83d"}',
    b'{"a": "\\x"}', b'{"a": "\\u12"}', b'{"a": "\n"}', b'{"a": "\\n\\t\\"\\\\\\/\\b\\f\\r"}',
    b'{"a": "\xff"}', b'{"a": "\xc0\x80"}', b'{"a": "\xed\xa0\x80"}', b'{"a": "\xf4\x90\x80\x80"}',
    b'{"a": NaN, "b": Infinity, "c": -Infinity}', b'{"a": nan}', b'{"a": 9223372036854775807}',
    b'{"a": 9223372036854775808}', b'{"a": {"b": {"c": [[[[]]]]}}}', b'{"a": 1} x', b'{"a": 1} ',
    b'{"a": 1}{}', b'{"a": tru}', b"{", b"", b"{]", b'{"a": [1 2]}', b'{"a": [1}', b"nul", b'"a"',
    b'{"a": "\x00"}', b'{"a": 1}\x00', b'{"a":1,"b":2}', b'{ "a" :\t1\r\n, "b" : [ ] }',
]  # fmt: skip


def test_json_is_read_as_python_does(parts: Path) -> None:
    rng = random.Random(1)
    texts = list(KNOWN)
    for _ in range(3000):
        cut = bytearray(rng.choice(KNOWN))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(cut) + 1)
            other = rng.choice(b'{}[]",:\\u0019-+.eE tfn\x80\xc3')
            cut[at : at + rng.randrange(2)] = bytes([other])
        texts.append(bytes(cut))
    texts = [t for t in texts if not t.startswith((b" ", b"\t"))]  # messages begin at once
    for text, said in zip(texts, asked(parts, *[("json", t) for t in texts]), strict=True):
        wanted, found = read(text), None if said == "none" else json.loads(said)
        assert equal(found, wanted), (text, said)


def test_depth_is_bounded(parts: Path) -> None:
    def nested(n: int) -> bytes:
        return b'{"a": ' + b"[" * n + b"]" * n + b"}"

    found = asked(parts, ("json", nested(60)), ("json", nested(70)), ("json", nested(10**5)))
    assert [f == "none" for f in found] == [False, True, True]


def test_members_are_found_by_their_names(parts: Path) -> None:
    text = '{"aa": {"b": 1}, "\\u0061": [2], "b": "c", "b": 3, "": 4, "\\u00e9": 5}'
    found = asked(parts, *[("get", text, name) for name in ("a", "b", "aa", "", "é", "c", "aaa")])
    assert found == ["[2]", "3", '{"b": 1}', "4", "5", "none", "none"]
