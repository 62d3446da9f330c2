"""Graph programs: nodes, text form, verifier, interpreter, passes."""

from .equal import assert_structural_equal, structural_equal
from .printer import script

__all__ = ["assert_structural_equal", "script", "structural_equal"]
