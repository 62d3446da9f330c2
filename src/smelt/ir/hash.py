"""A number for a program: structurally equal programs have the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from .equal import LEAVES, definition, normal, structure
from .module import IRModule
from .node import Node, ordered
from .text import data_text


def structural_hash(node: object, map_free_vars: bool = False) -> int:
    """The same for all that `structural_equal` calls equal; otherwise most likely another one.

    Which variable stands where does not count, nor do the values in arrays: programs that differ
    in nothing else share a number. map_free_vars changes nothing; it is there for the classic
    signature.
    """
    done: dict[int, bytes] = {}
    parts: dict[int, Any] = {}  # kept, what is made on the way too: ids stay what they are

    def inside(at: Any) -> list[Any]:
        parts[id(at)] = _parts(at)
        return _nodes(parts[id(at)])

    root = _Holder(node)
    for at in ordered([root], inside):
        done[id(at)] = hashlib.sha256(_words(parts[id(at)], done).encode()).digest()[:8]
    return int.from_bytes(done[id(root)], "little") >> 1


class _Holder:
    """What is hashed, as the one part of a node."""

    def __init__(self, value: object) -> None:
        self.value = value


def _parts(node: Any) -> list[tuple[str, Any]]:
    """The labelled parts of a node that count."""
    if isinstance(node, _Holder):
        return [("", node.value)]
    given: Any = definition(node)
    if given is None:
        plain = normal(node)
        if plain is not node:
            return [("", plain)]
        given = structure(node)
    return [(p.label, p.value) for p in given if p.action != "once"]


def _is_node(value: object) -> bool:
    return isinstance(value, Node | IRModule) and not isinstance(value, LEAVES)


def _nodes(value: Any) -> list[Any]:
    """The nodes directly inside of plain data."""
    if _is_node(value):
        return [value]
    if isinstance(value, Mapping):
        return [n for v in value.values() for n in _nodes(v)]
    if isinstance(value, tuple | list):
        return [n for v in value for n in _nodes(v)]
    return []


def _words(value: Any, done: Mapping[int, bytes]) -> str:
    """Plain data as text, with the numbers of the nodes inside."""

    def other(x: Any) -> str:
        if _is_node(x):
            return done[id(x)].hex()
        if isinstance(x, LEAVES):
            return f"{x.dtype}:{data_text(x.value)}"
        if isinstance(x, np.ndarray):
            return f"array:{x.shape}:{x.dtype}"
        name = repr(x) if isinstance(x, bytes) else getattr(x, "name", None)  # of an operator
        return f"other:{name}" if isinstance(name, str) else "other"

    return data_text(value, other, ordered=False)
