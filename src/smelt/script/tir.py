"""The script language of tensor programs: `from smelt.script import tir as T`."""

from __future__ import annotations

from typing import Any

from smelt.tir import script as language
from smelt.tir.script import Buffer as Buffer
from smelt.tir.script import macro as macro
from smelt.tir.script import prim_func as prim_func


def __getattr__(name: str) -> Any:
    return getattr(language, name)
