"""Windows: adaptive pooling, derivatives of poolings and convolutions, zeros between elements."""

from typing import Any

import numpy as np
import pytest

from .cases import Array, Case, close, data, label

X1, X2, X3 = data((2, 3, 9)), data((2, 3, 7, 10)), data((1, 2, 5, 4, 6))

ADAPTIVE = [
    (X1, (4,)), (X1, (3,)), (X1, (1,)), (X1, (13,)), (X2, (3, 4)), (X2, (7, 5)), (X2, (1, 1)),
    (X2, (9, 3)), (X3, (2, 3, 4)), (X3, (5, 1, 7)),
]  # fmt: skip


@pytest.mark.parametrize("name", ["adaptive_avg_pool", "adaptive_max_pool"])
@pytest.mark.parametrize(("x", "size"), ADAPTIVE, ids=label)
def test_adaptive_pooling(name: str, x: Array, size: tuple[int, ...]) -> None:
    case = Case(name, x, size=size)
    case.check()
    torch = pytest.importorskip("torch")
    kind = name.replace("pool", f"pool{len(size)}d")
    want = getattr(torch.nn.functional, kind)(torch.from_numpy(x), size).numpy()
    close(case.numpy()[0], want)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint8"])
@pytest.mark.parametrize("name", ["adaptive_avg_pool", "adaptive_max_pool"])
def test_adaptive_pooling_of_other_types(name: str, dtype: str) -> None:
    Case(name, data((1, 2, 7, 5), dtype, -9, 90), size=(3, 2)).check()


def test_adaptive_pooling_of_unknown_sizes() -> None:
    for name in ("adaptive_avg_pool", "adaptive_max_pool"):
        Case(name, data((1, 2, 7, 5)), symbolic={0: {2: "n", 3: "m"}}, size=(3, 2)).check()


@pytest.mark.parametrize("level", [0, 3])
def test_adaptive_pooling_compiles(level: int) -> None:
    for name in ("adaptive_avg_pool", "adaptive_max_pool"):
        Case(name, X2, size=(3, 4)).check_native(level=level)
        Case(name, X2, size=(7, 5)).check_native(level=level)
    Case("adaptive_avg_pool", X3, size=(2, 3, 4)).check_native(level=level)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_the_average_of_narrow_integers_does_not_overflow(dtype: str) -> None:
    x = np.full((1, 1, 5, 5), 100, dtype)
    attrs: dict[str, Any] = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}
    case = Case("avg_pool", x, **attrs)
    case.check()
    case.check_native()
    assert (case.numpy()[0] == 100).all()
    Case("avg_pool", data((1, 2, 6, 5), dtype, -100, 100), **attrs).check()


def test_normalisation_over_channels() -> None:
    torch = pytest.importorskip("torch")
    x = data((2, 7, 3, 4))
    for size in (1, 3, 4, 9):
        case = Case("lrn", x, size=size, alpha=0.3, beta=0.6, bias=2.0)
        case.check()
        if size % 2:  # torch puts the odd neighbour of an even size in front
            want = torch.nn.functional.local_response_norm(torch.from_numpy(x), size, 0.3, 0.6, 2.0)
            close(case.numpy()[0], want.numpy())


POOLS: list[tuple[Array, dict[str, Any]]] = [
    (X1, {"kernel": (3,), "strides": (2,), "pads": (1, 1)}),
    (X1, {"kernel": (2,)}),
    (X2, {"kernel": (3, 2), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    (X2, {"kernel": (2, 3), "strides": (3, 1)}),
    (X3, {"kernel": (2, 2, 3), "strides": (1, 2, 2), "pads": (1, 0, 1, 1, 0, 1)}),
]


def _grad(name: str, x: Array, attrs: dict[str, Any]) -> Array:
    shape = Case(name, x, **attrs).numpy()[0].shape
    return data((*shape[:1], *shape[1:]), low=0.5, high=2)


@pytest.mark.parametrize(("x", "attrs"), POOLS, ids=label)
def test_derivatives_of_poolings(x: Array, attrs: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    rank = x.ndim - 2
    pads = attrs.get("pads", (0,) * (2 * rank))[:rank]
    more = (attrs["kernel"], attrs.get("strides", (1,) * rank), pads)
    functional = torch.nn.functional
    grad = _grad("max_pool", x, attrs)
    for counted in (False, True):
        case = Case("avg_pool_grad", grad, x, count_include_pad=counted, **attrs)
        case.check()
        t = torch.from_numpy(x.copy()).requires_grad_()
        pooled = getattr(functional, f"avg_pool{rank}d")(t, *more, count_include_pad=counted)
        pooled.backward(torch.from_numpy(grad))
        close(case.numpy()[0], t.grad.numpy())
    case = Case("max_pool_grad", grad, x, **attrs)
    case.check()
    t = torch.from_numpy(x.copy()).requires_grad_()
    getattr(functional, f"max_pool{rank}d")(t, *more).backward(torch.from_numpy(grad))
    close(case.numpy()[0], t.grad.numpy())


def test_derivatives_of_dilated_and_uneven_poolings() -> None:
    attrs: dict[str, Any] = {
        "kernel": (3, 2), "strides": (1, 2), "pads": (0, 1, 2, 0), "dilations": (2, 3),
    }  # fmt: skip
    grad = _grad("max_pool", X2, attrs)
    Case("max_pool_grad", grad, X2, **attrs).check()
    Case("avg_pool_grad", grad, X2, **attrs).check()
    for dtype in ("float16", "float64"):
        Case("max_pool_grad", grad.astype(dtype), X2.astype(dtype), **attrs).check()
        Case("avg_pool_grad", grad.astype(dtype), X2.astype(dtype), **attrs).check()


def test_the_first_of_equal_elements_gets_the_derivative() -> None:
    x = np.array([[[1, 3, 3, 3, -np.inf, -np.inf]]], np.float32)
    case = Case("max_pool_grad", np.ones((1, 1, 3), np.float32), x, kernel=(2,), strides=(2,))
    case.check()
    np.testing.assert_array_equal(case.numpy()[0], [[[0, 1, 1, 0, 1, 0]]])


def test_derivatives_compile() -> None:
    x, attrs = POOLS[2]
    grad = _grad("max_pool", x, attrs)
    Case("max_pool_grad", grad, x, **attrs).check_native()
    Case("avg_pool_grad", grad, x, **attrs).check_native()
    Case(
        "conv_backward_weight", data((2, 4, 5, 5)), data((2, 6, 7, 7)), kernel=(3, 3)
    ).check_native()


CONVS: list[tuple[Array, tuple[int, ...], dict[str, Any]]] = [
    (data((2, 3, 9)), (4, 3, 3), {"strides": (2,), "pads": (1, 1)}),
    (data((2, 4, 7, 8)), (6, 2, 3, 2), {"groups": 2, "pads": (1, 1, 1, 1), "dilations": (2, 1)}),
    (data((2, 4, 7, 8)), (4, 1, 3, 3), {"groups": 4, "strides": (2, 1)}),
    (data((1, 2, 4, 5, 4)), (3, 2, 2, 2, 3), {}),
]


@pytest.mark.parametrize(("x", "w", "attrs"), CONVS, ids=label)
def test_derivative_of_a_convolution_by_its_filters(
    x: Array, w: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    rank = x.ndim - 2
    t = torch.zeros(w, requires_grad=True)
    one = (1,) * rank
    result = getattr(torch.nn.functional, f"conv{rank}d")(
        torch.from_numpy(x), t, None, attrs.get("strides", one),
        attrs.get("pads", (0,) * rank)[:rank], attrs.get("dilations", one), attrs.get("groups", 1),
    )  # fmt: skip
    grad = data(tuple(result.shape))
    result.backward(torch.from_numpy(grad))
    case = Case("conv_backward_weight", grad, x, kernel=w[2:], **attrs)
    case.check()
    close(case.numpy()[0], t.grad.numpy(), 1e-4)


TRANSPOSED: list[tuple[Array, tuple[int, ...], dict[str, Any]]] = [
    (data((2, 4, 5)), (4, 3, 3), {"strides": (2,), "pads": (1, 1), "output_padding": (1,)}),
    (data((2, 4, 5)), (4, 2, 2), {"groups": 2, "dilations": (2,)}),
    (
        data((1, 6, 4, 3)), (6, 2, 3, 2),
        {"groups": 3, "strides": (3, 2), "pads": (1, 1, 1, 1), "output_padding": (2, 1)},
    ),
    (data((1, 4, 4, 3)), (4, 1, 3, 3), {"groups": 4, "strides": (2, 2), "output_padding": (1, 0)}),
    (
        data((1, 4, 2, 3, 3)), (4, 2, 2, 3, 2),
        {"groups": 2, "strides": (1, 2, 3), "pads": (0, 1, 0) * 2, "output_padding": (0, 1, 2)},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("x", "w", "attrs"), TRANSPOSED, ids=label)
def test_transposed_convolutions_with_groups(
    x: Array, w: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    rank = x.ndim - 2
    filters, one, zero = data(w), (1,) * rank, (0,) * rank
    want = getattr(torch.nn.functional, f"conv_transpose{rank}d")(
        torch.from_numpy(x), torch.from_numpy(filters), None, attrs.get("strides", one),
        attrs.get("pads", zero)[:rank], attrs.get("output_padding", zero), attrs.get("groups", 1),
        attrs.get("dilations", one),
    )  # fmt: skip
    case = Case("conv_transpose", x, filters, **attrs)
    case.check()
    close(case.numpy()[0], want.numpy())
    case.check_native()


def test_zeros_between_elements() -> None:
    for dtype in ("float32", "float16", "int8"):
        Case("dilate", data((2, 3, 4), dtype), strides=(1, 3, 2)).check()
    case = Case("dilate", data((3,), "int32"), strides=(2,), value=-1)
    case.check()
    case.check_native()
    assert case.numpy()[0].tolist()[1::2] == [-1, -1]
    Case("dilate", data((3, 4)), symbolic={0: {0: "n"}}, strides=(2, 3)).check()


def test_a_border_mirrored_with_its_edge() -> None:
    Case("pad", data((3, 4), "int32"), pads=(2, 9, 3, 5), mode="symmetric").check()
    Case("pad", data((3, 4)), pads=(3, 0, 0, 4), mode="symmetric").check_native()
    Case("pad", data((3, 4)), symbolic={0: {1: "n"}}, pads=(0, 6, 1, 6), mode="symmetric").check()
