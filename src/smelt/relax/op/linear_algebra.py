"""Products of matrices and vectors."""

from __future__ import annotations

from ..compose.common import divisible, extents, legal, one_of, rank_of, reshaped, shape_of
from ..compose.einsum import einsum as sum_of_products
from ..compose.shapes import repeated
from ..nodes import RelaxExpr, call
from .entry import Operands, entry, same

same("matmul", "x1 x2", forms={"out_dtype": lambda dtype: dtype or ""}, out_dtype=None)


@entry("linear")
def linear(
    data: RelaxExpr, weight: RelaxExpr, bias: RelaxExpr | None = None,
    out_dtype: str | None = None,
) -> RelaxExpr:  # fmt: skip
    """data times the weight [units, k] transposed, with a bias added."""
    y = call("matmul", data, weight, transpose_b=True, out_dtype=out_dtype or "")
    return y if bias is None else call("add", y, bias)


@entry("outer")
def outer(x1: RelaxExpr, x2: RelaxExpr) -> RelaxExpr:
    """Each element of one vector times each of another: [n, m]."""
    for name, x in (("x1", x1), ("x2", x2)):
        legal(rank_of(x) == 1, f"{name} has {rank_of(x)} dimensions; a vector is legal")
    return call("multiply", reshaped(x1, (*shape_of(x1), 1)), x2)


@entry("einsum")
def einsum(operands: Operands, subscripts: str) -> RelaxExpr:
    """Einstein's sum: "ij,jk->ik"."""
    return sum_of_products(list(operands), subscripts)


@entry("nn.attention")
def attention(
    query: RelaxExpr, key: RelaxExpr, value: RelaxExpr, bias: RelaxExpr | None = None,
    scale: float | None = None, causal_mask: str | None = None, window_size: int | None = None,
) -> RelaxExpr:  # fmt: skip
    """softmax(query key^T * scale + bias) value for each head.

    Shapes       query [n, s, heads, d]; key [n, t, heads or fewer, d]; value [n, t, ..., e]; bias
                 broadcasts to [n, heads, s, t]; result [n, s, heads, e]
    scale        None: 1 / sqrt(d)
    causal_mask  "TopLeft" or "BottomRight": the corner that the diagonal of the mask starts from
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        legal(rank_of(x) == 4, f"{name} has {rank_of(x)} dimensions; 4 are legal")
    legal(window_size is None, f"window_size={window_size} is not supported; legal: None")
    turned: list[RelaxExpr] = [call("transpose", x, axes=(0, 2, 1, 3)) for x in (query, key, value)]
    q, k, v = turned
    heads, own = extents(q)[1], extents(k)[1]
    if heads is not None and own is not None and heads != own:
        # heads that several heads of the query share, each as often as that
        divisible("the number of the query's heads", heads, own)
        k, v = (repeated(x, heads // own, 1) for x in (k, v))
    width = extents(q)[3]
    legal(scale is not None or width is not None, "scale has to be given beside a symbolic width")
    factor = float(scale) if scale is not None else (width or 1) ** -0.5
    mask = bias if causal_mask is None else _causal(q, k, causal_mask, bias)
    y = call("attention", q, k, v, mask, scale=factor)
    return call("transpose", y, axes=(0, 2, 1, 3))


def _causal(q: RelaxExpr, k: RelaxExpr, corner: str, bias: RelaxExpr | None) -> RelaxExpr:
    """The mask of keys no later than the query's own place, with a bias where one is given."""
    one_of("causal_mask", corner, None, "TopLeft", "BottomRight")
    rows, columns = extents(q)[2], extents(k)[2]
    legal(rows is not None and columns is not None, "causal_mask needs known lengths")
    shift = 0 if corner == "TopLeft" else (columns or 0) - (rows or 0)
    all_of_it = call("full", shape=(rows, columns), value=1.0, dtype="float32")
    kept = call("cast", call("trilu", all_of_it, k=shift, upper=False), dtype="bool")
    if bias is None:
        return kept
    dtype = bias.type.dtype  # type: ignore[attr-defined]
    low = call("full", shape=(), value=float("-inf"), dtype=dtype)
    return call("where", kept, bias, low)
