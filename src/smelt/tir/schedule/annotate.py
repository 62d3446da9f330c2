"""Primitives that attach facts to loops and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.expr import Expr, FloatImm, IntImm, StringImm
from smelt.ir.walk import free_vars
from smelt.tir.nodes import Block, BlockRealize, For

from .loops import find
from .primitive import Base, primitive
from .state import State


class AnnotatePrimitives(Base):
    """annotate, unannotate."""

    @primitive
    def annotate(self, block_or_loop: str, ann_key: str, ann_val: Any) -> None:
        """Attach a fact to a loop or a block; what it means is up to whoever reads it.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    annotate("B", "stage", 1)
        After
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    T.block_attr({"stage": 1})
                    B[v] = A[v] + 1.0
        Needs   None, a number, text, an expression over sizes, or a list or dict of these.
        """
        s = self.state
        node = _noted(find(s, block_or_loop))
        value = _attribute(s, ann_val)
        s.replace({node: node.replace(annotations={**node.annotations, ann_key: value})})

    @primitive
    def unannotate(self, block_or_loop: str, ann_key: str) -> None:
        """Take an annotation away.

        Before
            for i in T.serial(4, annotations={"stage": 1}):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    unannotate("i", "stage")
        After
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Needs   an annotation of that name.
        """
        s = self.state
        target = find(s, block_or_loop)
        node = _noted(target)
        old = dict(node.annotations)
        if ann_key not in old:
            s.fail(
                f"{block_or_loop} has no annotation {ann_key!r}",
                mark={target: "here"},
                legal=", ".join(old) or "it has none",
            )
        del old[ann_key]
        s.replace({node: node.replace(annotations=old)})


def _noted(target: For | BlockRealize) -> For | Block:
    """What has the annotations of a loop or a block."""
    return target if isinstance(target, For) else target.block


def _attribute(s: State, v: Any) -> Any:
    """An attribute as plain data: constants as Python values, tuples as lists."""
    if isinstance(v, IntImm | FloatImm | StringImm):
        return bool(v.value) if v.dtype == "bool" else v.value
    if isinstance(v, Expr):
        loops = {x for x in free_vars(v) if x not in s.func.params}
        if loops:
            name = min(x.name for x in loops)
            s.fail(
                f"{name} is no value that is known outside of its loop",
                legal="an expression over the function's scalar parameters",
            )
        return v
    if isinstance(v, list | tuple):
        return [_attribute(s, x) for x in v]
    if isinstance(v, dict) and all(isinstance(k, str) for k in v):
        return {k: _attribute(s, x) for k, x in v.items()}
    if v is None or isinstance(v, str | bool | float):
        return v
    if isinstance(v, int):
        return int(v)
    if not isinstance(v, np.generic):
        s.fail(
            f"{type(v).__name__} cannot be an annotation",
            legal="None, numbers, text, expressions over sizes, lists and dicts of these",
        )
    return v.item()
