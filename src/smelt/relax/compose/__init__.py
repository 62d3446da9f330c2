"""Expressions of the core that the operators of several dialects are made of."""

from . import quantize as quantize  # enters its operators
