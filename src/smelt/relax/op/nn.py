"""`relax.op.nn`: activations, normalisations, losses; convolutions and products beside them."""

from __future__ import annotations

from inspect import Parameter
from typing import Any

from smelt.topi.registry import attributes

from ..compose import index, loss
from ..compose.common import (
    axes_of,
    cast_to,
    dtype_of,
    legal,
    normal_axis,
    rank_of,
    reshaped,
    scalar,
    shape_of,
)
from ..compose.norm import dropped, moved, norm
from ..nodes import RelaxExpr, call
from . import elementwise, linear_algebra, nn_window  # noqa: F401
from .entry import entry, namespace, refused, same

__getattr__, __dir__ = namespace("nn")

# ---------------------------------------------------------------------------------- activations


same("nn.relu6", "data", core="clip", fixed={"min": 0.0, "max": 6.0})
same("nn.softmax", "data", core="softmax", axis=-1)
same("nn.log_softmax", "data", core="log_softmax", axis=-1)
same("nn.gelu_tanh", "data", core="gelu", fixed={"approximate": "tanh"})


same("nn.leakyrelu nn.leaky_relu", "data", core="leaky_relu", alpha=0.01)
entry("nn.prelu")(index.prelu)


@entry("nn.softplus")
def softplus(data: RelaxExpr, beta: float = 1.0, threshold: float = 20.0) -> RelaxExpr:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold."""
    legal(beta != 0, "beta=0; it has to be another number")
    b, most = (scalar(float(n), dtype_of(data)) for n in (beta, threshold))
    inner = data if beta == 1 else call("multiply", data, b)
    curve: RelaxExpr = call("softplus", inner)
    curve = curve if beta == 1 else call("divide", curve, b)
    return call("where", call("greater", inner, most), data, curve)


entry("nn.dropout")(dropped)


# -------------------------------------------------------------------------------- normalisation


def _statistics(x: RelaxExpr, axis: int) -> tuple[RelaxExpr, RelaxExpr]:
    """Mean and variance of each channel, which stand along an axis, over everything else."""
    axes = tuple([d for d in range(rank_of(x)) if d != axis])
    mean = call("mean", x, axes=axes, keepdims=True)
    far = call("subtract", x, mean)
    var = call("mean", call("multiply", far, far), axes=axes, keepdims=False)
    return reshaped(mean, (shape_of(x)[axis],)), var


@entry("nn.batch_norm")
def batch_norm(
    data: RelaxExpr, gamma: RelaxExpr, beta: RelaxExpr, moving_mean: RelaxExpr,
    moving_var: RelaxExpr, axis: int = 1, epsilon: float = 1e-5, center: bool = True,
    scale: bool = True, momentum: float = 0.1, training: bool = True,
) -> list[RelaxExpr]:  # fmt: skip
    """Normalised channels: (result, mean, variance).

    training  False: by the running statistics, which are handed on. True: by those of the batch;
              the running ones become (1 - momentum) * running + momentum * batch
    """
    at = normal_axis(axis, rank_of(data))
    legal(at != 0, f"axis={axis} is the batch; legal: 1 to {rank_of(data) - 1}, or negative")
    mean, var, kept = moving_mean, moving_var, [moving_mean, moving_var]
    if training:
        mean, var = _statistics(data, at)
        kept = [_mixed(a, b, momentum) for a, b in ((moving_mean, mean), (moving_var, var))]
    y = norm("batch_norm", data, axis, 1, gamma, beta, mean, var, center=center, scale=scale,
             epsilon=epsilon)  # fmt: skip
    return [y, *kept]


def _mixed(old: RelaxExpr, new: RelaxExpr, momentum: float) -> RelaxExpr:
    a, b = (scalar(n, dtype_of(old)) for n in (1 - momentum, momentum))
    return call("add", call("multiply", old, a), call("multiply", cast_to(new, dtype_of(old)), b))


@entry("nn.layer_norm")
def layer_norm(
    data: RelaxExpr, gamma: RelaxExpr, beta: RelaxExpr, axes: Any = -1, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True,
) -> RelaxExpr:  # fmt: skip
    """Normalised over axes; gamma and beta have the extents of these."""
    first = rank_of(data) - len(axes_of(axes, rank_of(data)))
    return norm("layer_norm", data, axes, -1, gamma, beta, center=center, scale=scale, axis=first,
                epsilon=epsilon)  # fmt: skip


@entry("nn.rms_norm")
def rms_norm(
    data: RelaxExpr, weight: RelaxExpr, axes: Any = -1, epsilon: float = 1e-5
) -> RelaxExpr:
    """x / sqrt(mean(x ** 2) + epsilon) * weight over axes; the weight has their extents."""
    first = rank_of(data) - len(axes_of(axes, rank_of(data)))
    return moved(data, axes, -1, lambda x: call("rms_norm", x, weight, axis=first, epsilon=epsilon))


def _each_image(name: str, doc: str, *required: str) -> None:
    """Enter nn.<name>_norm, over all axes behind the batch but the channels'.

    required  attributes in front of the others, num_<what the core calls it>
    """
    first = dict.fromkeys([*required, "channel_axis", "axes"], Parameter.empty)

    @attributes(**first, epsilon=1e-5, center=True, scale=True)
    def build(
        data: RelaxExpr, gamma: RelaxExpr, beta: RelaxExpr, *, channel_axis: int, axes: Any,
        **attrs: Any,
    ) -> RelaxExpr:  # fmt: skip
        rank = rank_of(data)
        want = {*range(1, rank)} - {normal_axis(channel_axis, rank)}
        fits = set(axes_of(axes, rank)) == want
        legal(fits, f"axes={axes}; legal: {sorted(want)}, all but the batch and the channels")
        own = {n.removeprefix("num_"): v for n, v in attrs.items()}
        return norm(f"{name}_norm", data, channel_axis, 1, gamma, beta, **own)

    build.__doc__ = doc
    entry(f"nn.{name}_norm")(build)


_each_image("group", "Groups of neighbouring channels of each image normalised over axes.",
            "num_groups")  # fmt: skip
_each_image("instance", "Each channel of each image normalised over axes.")


# --------------------------------------------------------------------------------------- losses


@entry("nn.cross_entropy_with_logits")
def cross_entropy_with_logits(predictions: RelaxExpr, labels: RelaxExpr) -> RelaxExpr:
    """-sum(predictions * labels), divided by the batch where there is one; the predictions are
    logarithms."""
    products = call("multiply", predictions, labels)
    if rank_of(predictions) < 2:
        return call("negative", call("sum", products, axes=None, keepdims=False))
    return loss.per_image(predictions, products)


entry("nn.nll_loss")(loss.nll_loss)
entry("grad.nll_loss_backward")(loss.nll_loss_grad)
refused(
    ["nn.attention_var_len"],
    "it reads sequences of several lengths out of one tensor; pad them to one length and give "
    "nn.attention a mask as bias",
)
