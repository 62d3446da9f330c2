"""Artifacts changed where they are no machine code, with checksums that are valid again."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import random
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.runtime.linking import FOOTER, digest_of

__all__ = ["mutate_library", "mutate_tar"]

NUMBERS = [
    0, 1, -1, 2, 4, 63, 64, 65536, 1 << 20, 1 << 31, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63,
    (1 << 64) - 1, (1 << 64) - 65536, 1 << 80,
]  # fmt: skip
TEXTS = [
    "", "x", "n", "../x", "/etc/passwd", "-o/tmp/x", "float32", "float64", "object", "\0", "\ud800",
    '"); exit(1); //', "*/", "n // 0", "n ** n", "__import__('os')", "(" * 300, "%s%n", "min(n)",
    "mine", "program", "n" * 30_000, "dyn.full", "list",
]  # fmt: skip
VALUES: list[Any] = [
    *NUMBERS, *TEXTS, None, True, False, 1.5, 1e308, float("nan"), [], {}, [[]], [0], ["x"],
    {"x": 1}, [[[[[[]]]]]],
]  # fmt: skip


def _place(value: Any, rng: random.Random) -> tuple[Any, Any]:
    """(container, key) of something in JSON, by a walk down: short lists count as much as long."""
    key = rng.choice(_keys(value))
    while rng.random() < 0.7 and isinstance(value[key], dict | list) and value[key]:
        value = value[key]
        key = rng.choice(_keys(value))
    return value, key


def mutate_json(value: Any, rng: random.Random) -> None:
    """Some values replaced, left out, repeated, exchanged or a little different, in place."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if not value:
            return
        whole, key = _place(value, rng)
        old, kind = whole[key], rng.randrange(7)
        if kind == 0:
            del whole[key]
        elif kind in (1, 2) and type(old) in (int, str):
            near = [old - 1, old + 1, old * 2, -old] if type(old) is int else [old + "x", old[1:]]
            whole[key] = rng.choice(near)
        elif kind == 3 and isinstance(whole, list):
            whole.insert(rng.randrange(len(whole) + 1), copy.deepcopy(old))
        elif kind == 4:
            other, place = _place(value, rng)
            whole[key] = copy.deepcopy(other[place])
        else:
            whole[key] = copy.deepcopy(rng.choice(VALUES))


def _keys(whole: Any) -> list[Any]:
    return list(whole) if isinstance(whole, dict) else list(range(len(whole)))


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut, put in."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(made) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            del made[at : at + rng.choice([1, 2, 16, 64, 1 << 12])]
        elif kind == 1:
            made[at:at] = rng.randbytes(rng.choice([1, 2, 16, 64, 1 << 12]))
        elif kind == 2:
            made[at : at + 8] = (rng.choice(NUMBERS) % (1 << 64)).to_bytes(8, "little")
        elif at < len(made):
            made[at] ^= rng.choice([1, 2, 0x20, 0x80, 0xFF])
    return bytes(made)


@dataclass
class Library:
    """A library cut into its parts; `bytes` puts it together again, with valid checksums.

    agree  the code is told the id of what is there now
    free   the answer may be another one: what was changed are the model's numbers
    """

    code: bytes
    weights: bytes
    metadata: bytes
    fields: list[Any]
    aside: bytes | None = None
    agree: bool = True
    free: bool = False

    @classmethod
    def read(cls, data: bytes, aside: bytes | None) -> Library:
        fields = list(FOOTER.unpack(data[-FOOTER.size :]))
        start, size, at, length = fields[3:7]
        code = data[: at if aside else start]
        weights = aside[:size] if aside else data[start : start + size]
        return cls(code, weights, data[at : at + length], fields, aside)

    def write(self, path: Path, rng: random.Random | None = None) -> None:
        """Writes the files; with rng the footers are mutated."""
        code, old = self.code, self.fields[7].to_bytes(8, "little")
        export = digest_of(self.metadata)
        if self.agree:
            code = code.replace(old, export.to_bytes(8, "little"))
        start, size = len(code), len(self.weights)
        if self.aside is not None:
            foot = [*self.fields[:3], 0, size, size, 0, export, size + FOOTER.size]
            path.with_name(path.name + ".weights").write_bytes(self.weights + _foot(foot, rng))
            places, at = [0, size], start
        else:
            code += self.weights
            places, at = [start, size], start + size
        end = at + len(self.metadata) + FOOTER.size
        foot = [*self.fields[:3], *places, at, len(self.metadata), export, end]
        path.write_bytes(code + self.metadata + _foot(foot, rng))


def _foot(fields: list[Any], rng: random.Random | None) -> bytes:
    fields = list(fields)
    if rng is not None and rng.random() < 0.7:
        for _ in range(rng.choice([1, 1, 2])):
            n = rng.randrange(1, len(fields))
            near = [fields[n] + d for d in (-65536, -64, -1, 1, 64, 65536)]
            limit = 1 << (32 if n < 3 else 64)
            fields[n] = rng.choice([*NUMBERS, *near]) % limit
    return FOOTER.pack(*fields)


def mutate_library(data: bytes, aside: bytes | None, path: Path, rng: random.Random) -> bool:
    """Writes a mutated library; whether another answer is right too."""
    made = Library.read(data, aside)
    kind = rng.randrange(10)
    if kind < 5:
        text = json.loads(made.metadata)
        before = json.dumps(text.get("externals"))
        made.free = "program" in text  # which may then compute something else
        if rng.random() < 0.2 and "externals" in text:
            mutate_json(text["externals"], rng)
        elif rng.random() < 0.6 and "program" in text:
            mutate_json(text["program"]["functions"], rng)
        else:
            mutate_json(text, rng)
        made.metadata = json.dumps(text, sort_keys=True).encode()
        # Shapes of external functions are known to nobody else: the id alone protects them.
        changed = json.dumps(text.get("externals")) != before if type(text) is dict else True
        made.agree = rng.random() < 0.85 and not changed
        made.write(path)
    elif kind == 5:
        made.metadata = mutate_bytes(made.metadata, rng)
        made.write(path)
        made.free = b"externals" in made.metadata or b"program" in made.metadata
    elif kind == 6:
        made.write(path, rng)
        made.free = True  # the constants may be read from another place
    elif kind == 7:
        weights = bytearray(made.weights)
        for _ in range(rng.choice([1, 4, 64]) if weights else 0):
            weights[rng.randrange(len(weights))] = rng.randrange(256)
        longer = rng.random() < 0.5
        made.weights = mutate_bytes(bytes(weights), rng) if longer else bytes(weights)
        made.free = True
        if rng.random() < 0.5:
            text = json.loads(made.metadata) | {"weights_bytes": len(made.weights)}
            made.metadata = json.dumps(text, sort_keys=True).encode()
        made.write(path)
    elif kind == 8:
        made.write(path)
        tail = path.read_bytes()[len(made.code) :]
        path.write_bytes(made.code + mutate_bytes(tail, rng))
        made.free = True
    else:
        made.write(path)
        _replace_file(path.with_name(path.name + ".weights") if aside else path, rng)
        made.free = True
    return made.free


def _replace_file(path: Path, rng: random.Random) -> None:
    """Something else in the place of a file: cut, missing, a pipe, a folder, a link."""
    data = path.read_bytes()
    path.unlink()
    kind = rng.randrange(6)
    if kind == 0:
        path.write_bytes(data[: -rng.randrange(1, 4096)])
    elif kind == 1:
        path.write_bytes(data + rng.randbytes(rng.choice([1, 64, 5000])))
    elif kind == 2:
        os.mkfifo(path)
    elif kind == 3:
        path.mkdir()
    elif kind == 4:
        path.symlink_to(path.name if rng.random() < 0.5 else "/dev/zero")


def mutate_tar(data: bytes, path: Path, rng: random.Random) -> bool:
    """Writes a mutated archive; whether another answer is right too."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    free, kind, members = False, rng.randrange(6), []
    if kind < 3 and "model.so" in files:
        place = path.with_name("inner.so")
        free = mutate_library(files["model.so"], None, place, rng)
        files["model.so"] = place.read_bytes() if place.is_file() else b""
    elif kind < 3:
        text = json.loads(files["metadata.json"])
        mutate_json(text, rng)
        made = json.dumps(text, sort_keys=True).encode()
        old, new = (f"UINT64_C({digest_of(t)})".encode() for t in (files["metadata.json"], made))
        files["metadata.json"] = made
        files["model.c"] = files["model.c"].replace(old, new)
    elif kind == 3 and "weights.bin" in files:
        files["weights.bin"], free = mutate_bytes(files["weights.bin"], rng), True
    for name, content in files.items():
        info = tarfile.TarInfo(name)
        info.size = len(content)
        members.append((info, content))
    if kind > 3:
        _mutate_members(members, rng)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    made = out.getvalue() if rng.random() < 0.9 else gzip.compress(out.getvalue(), 1)
    if kind == 5 and rng.random() < 0.5:
        head = 512 * rng.randrange(3)
        made = made[:head] + mutate_bytes(made[head : head + 512], rng) + made[head + 512 :]
    path.write_bytes(made)
    return free


def _mutate_members(members: list[Any], rng: random.Random) -> None:
    names = ["../x", "/tmp/x", "-o", "@args", "model.so", "model1.o", "model0.o", "model.c", "a.c",
             "metadata.json", "weights.bin", "model\0.o", "model.so.weights", "", "é"]  # fmt: skip
    info, content = rng.choice(members)
    kind = rng.randrange(6)
    if kind == 0:
        info.name = rng.choice(names)
    elif kind == 1:
        info.type = rng.choice([
            tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE,
            tarfile.GNUTYPE_SPARSE, tarfile.CONTTYPE,
        ])  # fmt: skip
        info.linkname = rng.choice(["metadata.json", "/etc/passwd", "../x", info.name])
        info.size = rng.choice([0, info.size])
    elif kind == 2:
        members.append((copy.copy(info), content))
    elif kind == 3:
        members.remove((info, content))
    elif kind == 4:
        size = rng.choice([len(content) + 1, 1 << 40, 1 << 62])
        info.pax_headers = rng.choice([
            {"size": str(size)}, {"path": rng.choice(names)}, {"size": "-512"},
            {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(size)},
        ])  # fmt: skip
    else:
        extra = tarfile.TarInfo(rng.choice(names))
        extra.size = 3
        members.insert(rng.randrange(len(members) + 1), (extra, b"x=1"))
