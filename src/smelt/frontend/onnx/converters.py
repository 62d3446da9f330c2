"""All converters: importing this module enters them."""

from . import (
    evaluate,
    ops_control,
    ops_data,
    ops_einsum,
    ops_index,
    ops_math,
    ops_nn,
    ops_norm,
    ops_pool,
    ops_resize,
    ops_sequence,
    ops_shape,
    ops_vision,
)

__all__ = [
    "evaluate",
    "ops_control",
    "ops_data",
    "ops_einsum",
    "ops_index",
    "ops_math",
    "ops_nn",
    "ops_norm",
    "ops_pool",
    "ops_resize",
    "ops_sequence",
    "ops_shape",
    "ops_vision",
]
