"""The operators: one function each. `get_op(name)` finds one by name."""

from . import attention as _attention
from . import broadcast as _broadcast
from . import conv as _conv
from . import create as _create
from . import elementwise as _elementwise
from . import gather as _gather
from . import nn as _nn
from . import norm as _norm
from . import pool as _pool
from . import reduce as _reduce
from . import resize as _resize
from . import transform as _transform
from .registry import Op, OpInstance, get_op, op, ops

globals().update(ops())
