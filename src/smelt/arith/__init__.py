"""Integer arithmetic: simplification, bounds, proofs, affine iterator maps."""

from .analyzer import Analyzer, Domain, RangeLike
from .answer import Answer

__all__ = ["Analyzer", "Answer", "Domain", "RangeLike"]
