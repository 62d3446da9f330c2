"""Texts of programs read back."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.relax.parser import parse as parse_module
from smelt.relax.verify import verify as verify_graphs
from smelt.tir.nodes import PrimFunc
from smelt.tir.verify import verify as verify_program


def parse(
    text: str,
    extra_vars: Mapping[str, Any] | None = None,
    check_well_formed: bool = True,
    *,
    constants: Mapping[str, np.ndarray] | str | None = None,
    path: str = "<script>",
) -> IRModule | Node:
    """The module that a class describes, or the one function of a text without a class.

    extra_vars         values of Python that the text may use by name
    check_well_formed  whether the rules of the programs are checked too (a VerifyError)
    constants          name of a graph's constant -> array; "zeros" makes all of them zero
    path               what errors call the text
    """
    plain = textwrap.dedent(text)
    module = parse_module(plain, constants, path, extra_vars)
    if check_well_formed:
        check(module)
    alone = len(module.functions) == 1 and not _has_class(plain)
    return next(iter(module.functions.values())) if alone else module


from_source = parse
"""The classic name of `parse`."""


def _has_class(text: str) -> bool:
    return any(isinstance(s, ast.ClassDef) for s in ast.parse(text).body)


def check(module: IRModule) -> IRModule:
    """The module, whose programs and graphs keep the rules of their levels."""
    for f in module.functions.values():
        if isinstance(f, PrimFunc):
            verify_program(f)
    verify_graphs(module)
    return module
