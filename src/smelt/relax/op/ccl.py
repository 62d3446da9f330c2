"""`relax.op.ccl`: see base.py."""

from __future__ import annotations

from . import base, index, nn, nn_window  # noqa: F401
from .entry import namespace

__getattr__, __dir__ = namespace("ccl")
