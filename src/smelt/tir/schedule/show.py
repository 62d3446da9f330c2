"""How errors show a program: the one place that knows the printer."""

from __future__ import annotations

from collections.abc import Mapping

from smelt.ir.node import Node
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script

__all__ = ["show"]


def show(func: PrimFunc, mark: Mapping[Node, str]) -> str:
    """The program as text, the marked nodes underlined with their notes."""
    return script(func, mark=mark)
