"""Cases of networks' builders against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from smelt.relax import op
from tests.relax_arrays import i64s

from .cases import case, f32

torch = pytest.importorskip("torch")
F = torch.nn.functional
nn = op.nn


def by(fn: Callable[..., Any]) -> Callable[..., Any]:
    """What torch makes of numpy's arrays."""

    def run(*arrays: np.ndarray) -> Any:
        made = fn(*[torch.from_numpy(a) for a in arrays])
        return tuple([m.numpy() for m in made]) if isinstance(made, tuple) else made.numpy()

    return run


_x = f32(2, 4, 5, 6)
PLAIN = {
    "relu": F.relu,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "silu": F.silu,
    "selu": F.selu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "leakyrelu": F.leaky_relu,
    "softplus": F.softplus,
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
}
for _name, _fn in PLAIN.items():
    case(f"nn.{_name}", getattr(nn, _name), _x, by(_fn))
case("nn.softplus", lambda x: nn.softplus(x, 2.0, 1.0), _x, by(lambda x: F.softplus(x, 2.0, 1.0)))
case("nn.prelu", nn.prelu, (_x, f32(4)), by(F.prelu))
case("nn.dropout", nn.dropout, f32(3), lambda x: (x, np.ones_like(x)))
case(
    "nn.pad",
    lambda x: nn.pad(x, (0, 0, 0, 0, 1, 2, 3, 0), "constant", 1.5),
    _x,
    by(lambda x: F.pad(x, (3, 0, 1, 2), value=1.5)),
)
for _mode in ("reflect", "replicate", "circular"):
    case(
        "nn.pad",
        lambda x, _m=_mode: nn.pad(x, [(0, 0), (0, 0), (1, 2), (3, 0)], _m),
        _x,
        by(lambda x, _m=_mode: F.pad(x, (3, 0, 1, 2), mode=_m)),
    )
case(
    "nn.pixel_shuffle",
    lambda x: nn.pixel_shuffle(x, 2),
    f32(2, 8, 3, 2),
    by(lambda x: F.pixel_shuffle(x, 2)),
)
case(
    "nn.pixel_shuffle",
    lambda x: nn.pixel_shuffle(x, 2),
    f32(4, 3, 2),
    by(lambda x: F.pixel_shuffle(x, 2)),
)

# ------------------------------------------------------------------------------------ windows

case(
    "nn.conv1d",
    lambda x, w: nn.conv1d(x, w, 2, 1),
    (f32(1, 3, 9), f32(4, 3, 3)),
    by(lambda x, w: F.conv1d(x, w, stride=2, padding=1)),
    1e-4,
)
case(
    "nn.conv2d",
    lambda x, w: nn.conv2d(x, w, (2, 1), (1, 0), (1, 2), groups=2),
    (_x, f32(6, 2, 3, 2)),
    by(lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 0), (1, 2), 2)),
    1e-4,
)
case(
    "nn.conv2d",
    lambda x, w: nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO", out_layout="NCHW"),
    (f32(1, 5, 6, 3), f32(3, 3, 3, 4)),
    by(lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1))),
    1e-4,
)
case(
    "nn.conv3d",
    lambda x, w: nn.conv3d(x, w, padding=1),
    (f32(1, 2, 3, 4, 3), f32(2, 2, 3, 3, 3)),
    by(lambda x, w: F.conv3d(x, w, padding=1)),
    1e-4,
)
case(
    "nn.conv1d_transpose",
    lambda x, w: nn.conv1d_transpose(x, w, 2, 1, 1),
    (f32(1, 3, 4), f32(3, 2, 3)),
    by(lambda x, w: F.conv_transpose1d(x, w, None, 2, 1, 1)),
    1e-4,
)
case(
    "nn.conv2d_transpose",
    lambda x, w: nn.conv2d_transpose(x, w, 2, 1, 1, groups=2),
    (f32(1, 4, 3, 3), f32(4, 2, 3, 3)),
    by(lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1, 2)),
    1e-4,
)
case(
    "nn.conv3d_transpose",
    nn.conv3d_transpose,
    (f32(1, 2, 2, 3, 2), f32(2, 3, 2, 2, 2)),
    by(F.conv_transpose3d),
    1e-4,
)
for _rank, _shape in {1: (1, 2, 9), 2: (1, 2, 7, 8), 3: (1, 2, 5, 6, 7)}.items():
    _v = f32(*_shape)
    for _kind in ("max", "avg"):
        _fn = getattr(F, f"{_kind}_pool{_rank}d")
        case(
            f"nn.{_kind}_pool{_rank}d",
            lambda x, _k=_kind, _r=_rank: (
                getattr(nn, f"{_k}_pool{_r}d")(x, 3, 2, 1, ceil_mode=True)
                if _k == "max"
                else getattr(nn, f"{_k}_pool{_r}d")(x, 3, 2, 1, count_include_pad=True)
            ),
            _v,
            by(lambda x, _f=_fn, _k=_kind: _f(x, 3, 2, 1, ceil_mode=_k == "max")),
        )
        case(
            f"nn.{_kind}_pool{_rank}d",
            lambda x, _k=_kind, _r=_rank: getattr(nn, f"{_k}_pool{_r}d")(x, 2),
            _v,
            by(lambda x, _f=_fn: _f(x, 2)),
        )
        _ad = getattr(F, f"adaptive_{_kind}_pool{_rank}d")
        case(
            f"nn.adaptive_{_kind}_pool{_rank}d",
            lambda x, _k=_kind, _r=_rank: getattr(nn, f"adaptive_{_k}_pool{_r}d")(x, 3),
            _v,
            by(lambda x, _f=_ad: _f(x, 3)),
        )

# ------------------------------------------------------------------------------ normalisation

_g, _b, _m, _s = f32(4), f32(4), f32(4), f32(4, low=0.2)
case(
    "nn.batch_norm",
    lambda x, g, b, m, s: nn.batch_norm(x, g, b, m, s, 1, training=False),
    (_x, _g, _b, _m, _s),
    by(lambda x, g, b, m, s: (F.batch_norm(x, m, s, g, b), m, s)),
    1e-4,
)


def _trained(x: Any, g: Any, b: Any, m: Any, s: Any) -> Any:
    y = F.batch_norm(x, None, None, g, b, True)
    axes = (0, 2, 3)
    return y, 0.9 * m + 0.1 * x.mean(axes), 0.9 * s + 0.1 * x.var(axes, unbiased=False)


case(
    "nn.batch_norm",
    lambda x, g, b, m, s: nn.batch_norm(x, g, b, m, s, 1),
    (_x, _g, _b, _m, _s),
    by(_trained),
    1e-4,
)
case(
    "nn.layer_norm",
    lambda x, g, b: nn.layer_norm(x, g, b, -1),
    (_x, f32(6), f32(6)),
    by(lambda x, g, b: F.layer_norm(x, (6,), g, b)),
    1e-4,
)
case(
    "nn.layer_norm",
    lambda x, g, b: nn.layer_norm(x, g, b, [-2, -1]),
    (_x, f32(5, 6), f32(5, 6)),
    by(lambda x, g, b: F.layer_norm(x, (5, 6), g, b)),
    1e-4,
)
case(
    "nn.layer_norm",
    lambda x, g, b: nn.layer_norm(x, g, b, [1, 3]),
    (_x, f32(4, 6), f32(4, 6)),
    by(lambda x, g, b: F.layer_norm(x.transpose(1, 2), (4, 6), g, b).transpose(1, 2)),
    1e-4,
)
case(
    "nn.rms_norm",
    lambda x, w: nn.rms_norm(x, w, [1, 2], 1e-5),
    (_x, f32(4, 5)),
    by(lambda x, w: F.rms_norm(x.permute(0, 3, 1, 2), (4, 5), w, 1e-5).permute(0, 2, 3, 1)),
    1e-4,
)
case(
    "nn.rms_norm",
    lambda x, w: nn.rms_norm(x, w, -1, 1e-5),
    (_x, f32(6)),
    by(lambda x, w: F.rms_norm(x, (6,), w, 1e-5)),
    1e-4,
)
case(
    "nn.rms_norm",
    lambda x, w: nn.rms_norm(x, w, [-2, -1], 1e-5),
    (_x, f32(5, 6)),
    by(lambda x, w: F.rms_norm(x, (5, 6), w, 1e-5)),
    1e-4,
)
case(
    "nn.group_norm",
    lambda x, g, b: nn.group_norm(x, g, b, 2, 1, [2, 3]),
    (_x, _g, _b),
    by(lambda x, g, b: F.group_norm(x, 2, g, b)),
    1e-4,
)
case(
    "nn.instance_norm",
    lambda x, g, b: nn.instance_norm(x, g, b, 1, [2, 3]),
    (_x, _g, _b),
    by(lambda x, g, b: F.instance_norm(x, weight=g, bias=b)),
    1e-4,
)

# ----------------------------------------------------------------------------------- attention

_q, _k = f32(2, 3, 4, 8), f32(2, 5, 4, 8)


def _attention(causal: bool = False, **named: Any) -> Callable[..., Any]:
    def run(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if causal:
            mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(
                k.shape[2] - q.shape[2]
            )
        y = F.scaled_dot_product_attention(q, k, v, mask, **named)
        return y.transpose(1, 2).contiguous()

    return by(run)


case("nn.attention", nn.attention, (_q, _k, f32(2, 5, 4, 6)), _attention(), 1e-4)
case("nn.attention", nn.attention, (_q, _k, _k, f32(2, 1, 3, 5)), _attention(), 1e-4)
case(
    "nn.attention",
    lambda q, k: nn.attention(q, k, k, scale=0.5, causal_mask="BottomRight"),
    (_q, _k),
    lambda q, k: _attention(True, scale=0.5)(q, k, k),
    1e-4,
)
case(
    "nn.attention",
    nn.attention,
    (_q, f32(2, 5, 2, 8), f32(2, 5, 2, 8)),
    _attention(enable_gqa=True),
    1e-4,
)

# ----------------------------------------------------------------------- losses, derivatives

_logp = np.log(np.full((3, 4), 0.25, "float32")) + f32(3, 4)
_t = i64s([1, 3, -100])
case(
    "nn.cross_entropy_with_logits",
    nn.cross_entropy_with_logits,
    (_logp, f32(3, 4)),
    lambda p, y: np.float32(-(p * y).sum() / 3),
)
for _how in ("mean", "sum", "none"):
    case(
        "nn.nll_loss",
        lambda p, t, w, _h=_how: nn.nll_loss(p, t, w, _h),
        (_logp, _t, f32(4, low=0.1)),
        by(lambda p, t, w, _h=_how: F.nll_loss(p, t, w, reduction=_h)),
        1e-4,
    )
case("nn.nll_loss", nn.nll_loss, (_logp, _t), by(F.nll_loss), 1e-4)


def _slope(fn: Callable[..., Any], at: int = 0) -> Callable[..., Any]:
    """The derivative of a function of torch by one operand, times the first argument."""

    def run(grad: Any, *args: Any) -> Any:
        given = list(args)
        given[at] = given[at].clone().requires_grad_()
        fn(*given).backward(grad)
        return given[at].grad

    return by(run)


for _how in ("mean", "sum", "none"):
    case(
        "grad.nll_loss_backward",
        lambda g, p, t, w, _h=_how: op.grad.nll_loss_backward(g, p, t, w, _h),
        (f32(3) if _how == "none" else f32(), _logp, _t, f32(4, low=0.1)),
        _slope(lambda p, t, w, _h=_how: F.nll_loss(p, t, w, reduction=_h)),
        1e-4,
    )
_w = f32(1, 2, 6, 7)
case(
    "grad.max_pool2d_backward",
    lambda g, x: op.grad.max_pool2d_backward(g, x, (2, 3), (2, 2)),
    (f32(1, 2, 3, 3), _w),
    _slope(lambda x: F.max_pool2d(x, (2, 3), (2, 2))),
    1e-4,
)
case(
    "grad.avg_pool2d_backward",
    lambda g, x: op.grad.avg_pool2d_backward(g, x, (2, 3), (2, 2), (1, 1), count_include_pad=True),
    (f32(1, 2, 4, 4), _w),
    _slope(lambda x: F.avg_pool2d(x, (2, 3), (2, 2), (1, 1))),
    1e-4,
)

# -------------------------------------------------------------------------------------- images

_im = f32(1, 2, 5, 6)
for _method, _mode in {"linear": "bilinear", "cubic": "bicubic"}.items():
    case(
        "image.resize2d",
        lambda x, _m=_method: op.image.resize2d(x, (7, 9), method=_m),
        _im,
        by(lambda x, _m=_mode: F.interpolate(x, (7, 9), mode=_m)),
        1e-4,
    )
case(
    "image.resize2d",
    lambda x: op.image.resize2d(
        x,
        10,
        layout="NHWC",
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    ),
    f32(1, 5, 6, 2),
    by(lambda x: F.interpolate(x.permute(0, 3, 1, 2), 10).permute(0, 2, 3, 1).contiguous()),
)
case(
    "image.resize3d",
    lambda x: op.image.resize3d(x, (3, 4, 7)),
    f32(1, 1, 2, 3, 4),
    by(lambda x: F.interpolate(x, (3, 4, 7), mode="trilinear")),
    1e-4,
)
_grid = f32(1, 2, 3, 4, low=-1.1, high=1.1)
for _method in ("bilinear", "nearest"):
    case(
        "image.grid_sample",
        lambda x, g, _m=_method: op.image.grid_sample(x, g, _m),
        (_im, _grid),
        by(
            lambda x, g, _m=_method: F.grid_sample(x, g.permute(0, 2, 3, 1), _m, align_corners=True)
        ),
        1e-4,
    )
case(
    "image.affine_grid",
    lambda m: op.image.affine_grid(m, (3, 4)),
    f32(2, 2, 3),
    by(
        lambda m: (
            F.affine_grid(m, (2, 1, 3, 4), align_corners=True).permute(0, 3, 1, 2).contiguous()
        )
    ),
    1e-4,
)
