"""The pattern language on graph programs: matching, partitioning, rewriting."""

from .base import (
    AltPattern,
    AndPattern,
    AttrPattern,
    CallPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    NotPattern,
    ShapePattern,
    TypePattern,
    WildcardPattern,
)
from .context import PatternContext, PatternSeq
from .partition import partition
from .pattern import (
    ConstantPattern,
    FunctionPattern,
    GlobalVarPattern,
    IfPattern,
    LetPattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_call,
    is_call_tir,
    is_const,
    is_constant,
    is_expr,
    is_function,
    is_global_var,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    make_residual_block_pattern,
    reject,
    wildcard,
)
from .rewrite import DFPatternCallback, rewrite, rewrite_bindings, rewrite_call
from .tables import get_pattern_table, register_pattern_table

__all__ = [
    "AltPattern", "AndPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DFPattern",
    "DFPatternCallback", "DataTypePattern", "DominatorPattern", "ExprPattern", "FunctionPattern",
    "GlobalVarPattern", "IfPattern", "LetPattern", "NotPattern", "PatternContext", "PatternSeq",
    "ShapePattern", "TupleGetItemPattern", "TuplePattern", "TypePattern", "VarPattern",
    "WildcardPattern", "dominates", "get_pattern_table", "has_attr", "has_dtype", "has_shape",
    "has_type", "is_call", "is_call_tir", "is_const", "is_constant", "is_expr", "is_function",
    "is_global_var", "is_if", "is_let", "is_op", "is_tuple", "is_tuple_get_item", "is_var",
    "make_fused_bias_activation_pattern", "make_residual_block_pattern", "partition",
    "register_pattern_table", "reject", "rewrite", "rewrite_bindings", "rewrite_call", "wildcard",
]  # fmt: skip
