"""What lies in the cache is data: nothing in it is executed before it is checked."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from smelt.ir.expr import const
from smelt.ir.node import Node, NodeMeta
from smelt.lowering.kernel import Artifact
from smelt.lowering.model import _read_artifact
from smelt.lowering.packing import Pack


class Meta:
    """Would make a class from text, as the metaclass of nodes does: its fields become source."""

    def __reduce__(self) -> tuple[object, ...]:
        fields = {"x=__import__('os').abort()": "int"}
        return (NodeMeta, ("Evil", (Node,), {"__annotations__": fields}))


class Evil:
    """Would make a folder when it is read by a plain unpickler."""

    def __init__(self, path: str) -> None:
        """Keep the path."""
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (self.path,))


def test_a_compiled_kernel_is_read() -> None:
    pack = Pack((1, 8, 16), ((1, 16, 0), (0, 0, 0), (1, 0, 16)))
    made = Artifact(b"code", (), (const(64),), (pack, None), const(7), "trace")
    assert _read_artifact(pickle.dumps(made)) == made


def test_foreign_code_is_not_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    assert _read_artifact(pickle.dumps(Evil(str(target)))) is None
    assert not target.exists()
    assert _read_artifact(pickle.dumps(Meta())) is None
    assert _read_artifact(pickle.dumps({"no": "artifact"})) is None
    for name in ("os.system", "NodeMeta", "Path", "ObjectCompiler"):
        for room in (b"smelt.ir.node", b"smelt.lowering.kernel", b"smelt.lowering.packing"):
            call = b"\x80\x04\x8c" + bytes([len(room)]) + room
            call += b"\x8c" + bytes([len(name)]) + name.encode() + b"\x93\x8c\x01x\x85R."
            assert _read_artifact(call) is None
    assert _read_artifact(b"damaged") is None
