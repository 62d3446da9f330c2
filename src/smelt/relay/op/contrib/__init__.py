"""What other compilers can do: their pattern tables."""

from typing import Never

from smelt.ir.absent import is_absent, refuse_module

from . import cmsisnn, dnnl, register
from .register import get_pattern_table, register_pattern_table

__all__ = ["cmsisnn", "dnnl", "get_pattern_table", "register", "register_pattern_table"]


def __getattr__(name: str) -> Never:
    if is_absent(f"relay.op.contrib.{name}"):
        refuse_module(f"relay.op.contrib.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
