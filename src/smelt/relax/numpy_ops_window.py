"""The operators in numpy: windows of images, their derivatives, and sampling between pixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from .numpy_ops import Array, Index, numpy_op, widened

# -------------------------------------------------------------------------------------- adaptive


def _even(extents: Sequence[int], size: Sequence[int]) -> Iterator[tuple[Index, Index]]:
    """Every place of the result, and the pixels of its window."""
    for place in np.ndindex(*size):
        window = [
            slice(i * h // n, -(-(i + 1) * h // n))
            for i, h, n in zip(place, extents, size, strict=True)
        ]
        yield (..., *place), (..., *window)


@numpy_op
def adaptive_max_pool(x: Array, *, size: Sequence[int]) -> Array:
    """The largest pixel of each window."""
    out = np.empty((*x.shape[:2], *size), x.dtype)
    for place, window in _even(x.shape[2:], size):
        out[place] = x[window].max(tuple(range(2, x.ndim)))
    return out


@numpy_op
def adaptive_avg_pool(x: Array, *, size: Sequence[int]) -> Array:
    """The mean of each window."""
    w = widened(x)
    out = np.empty((*x.shape[:2], *size), x.dtype)
    for place, window in _even(x.shape[2:], size):
        part = w[window].reshape(*x.shape[:2], -1)
        mean = part.sum(-1) / part.shape[-1]
        out[place] = np.trunc(mean) if x.dtype.kind in "iu" else mean
    return out


# ----------------------------------------------------------------------------------- derivatives


def _windows(
    shape: Sequence[int], size: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int],
) -> Iterator[tuple[Index, list[Index], int]]:  # fmt: skip
    """Every place of a pooling's result, the pixels of the image in its window in the order of
    memory, and the number of pixels with the padding's."""
    rank = len(kernel)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    for place in np.ndindex(*size):
        lines = [
            [y * s - b + t * d for t in range(k)]
            for y, s, b, d, k in zip(place, strides, pads, dilations, kernel, strict=False)
        ]
        pixels: list[Index] = [
            (..., *p)
            for p in itertools.product(*lines)
            if all(0 <= v < n for v, n in zip(p, shape, strict=True))
        ]
        yield (..., *place), pixels, int(np.prod(kernel))


@numpy_op
def avg_pool_grad(
    grad: Array, x: Array, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int], count_include_pad: bool,
) -> Array:  # fmt: skip
    """Every window's derivative divided among its pixels."""
    g = widened(grad)
    out = np.zeros(x.shape, g.dtype)
    places = _windows(x.shape[2:], grad.shape[2:], kernel, strides, pads, dilations)
    for place, pixels, everything in places:
        count = everything if count_include_pad else max(len(pixels), 1)
        for p in pixels:
            out[p] += g[place] / g.dtype.type(count)
    return out.astype(x.dtype)


@numpy_op
def max_pool_grad(
    grad: Array, x: Array, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int],
) -> Array:  # fmt: skip
    """Every window's derivative at its first largest pixel."""
    g = widened(grad)
    out = np.zeros(x.shape, g.dtype)
    places = _windows(x.shape[2:], grad.shape[2:], kernel, strides, pads, dilations)
    for place, pixels, _ in places:
        if not pixels:
            continue
        values = np.stack([x[p] for p in pixels])
        best = values.argmax(0)
        for k, p in enumerate(pixels):
            out[p] += np.where(best == k, g[place], 0)
    return out.astype(x.dtype)


@numpy_op
def conv_backward_weight(
    grad: Array, x: Array, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int], groups: int,
) -> Array:  # fmt: skip
    """For every kernel element the image moved under it, times the derivative."""
    rank = len(kernel)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    border = list(zip(pads[:rank], pads[rank:], strict=True))
    image, g = np.pad(widened(x), [(0, 0), (0, 0), *border]), widened(grad)
    size, outputs = grad.shape[2:], grad.shape[1] // groups
    inputs = x.shape[1] // groups
    out = np.zeros((grad.shape[1], inputs, *kernel), g.dtype)
    for place in np.ndindex(*kernel):
        cut = [
            slice(t * d, t * d + max(0, (n - 1) * s + 1), s)
            for t, d, n, s in zip(place, dilations, size, strides, strict=True)
        ]
        seen = image[(slice(None), slice(None), *cut)]
        for k in range(groups):
            o = slice(k * outputs, (k + 1) * outputs)
            c = slice(k * inputs, (k + 1) * inputs)
            # the last dimension of both runs over all places of the result
            one = [t.reshape(*t.shape[:2], -1) for t in (g[:, o], seen[:, c])]
            out[(o, slice(None), *place)] = np.einsum("nop,ncp->oc", *one)
    return out.astype(x.dtype)


@numpy_op
def col2im(
    x: Array, *, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int],
) -> Array:  # fmt: skip
    """Every column added to the pixels of its window, on the padded image that is cut then."""
    rank = len(size)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    padded = [h + b + e for h, b, e in zip(size, pads[:rank], pads[rank:], strict=True)]
    places = [
        (h - d * (k - 1) - 1) // s + 1
        for h, k, s, d in zip(padded, kernel, strides, dilations, strict=True)
    ]
    columns = widened(x).reshape(x.shape[0], -1, *kernel, *places)
    out = np.zeros((*columns.shape[:2], *padded), columns.dtype)
    for tap in np.ndindex(*kernel):
        cut = [
            slice(t * d, t * d + max(0, (n - 1) * s + 1), s)
            for t, d, n, s in zip(tap, dilations, places, strides, strict=True)
        ]
        place: Index = (..., *cut)
        out[place] += columns[(slice(None), slice(None), *tap)]
    keep: Index = (..., *[slice(b, b + h) for b, h in zip(pads[:rank], size, strict=True)])
    return out[keep].astype(x.dtype)


# -------------------------------------------------------------------------------- between pixels


def _cubic(t: float) -> list[float]:
    """The weights of four neighbours by cubic convolution with the coefficient -0.75."""
    a = -0.75

    def kernel(v: float) -> float:
        if v <= 1:
            return (a + 2) * v**3 - (a + 3) * v**2 + 1
        return a * v**3 - 5 * a * v**2 + 8 * a * v - 4 * a

    return [kernel(abs(t + 1 - k)) for k in range(4)]


def _mirror(v: float, n: int, align_corners: bool) -> float:
    """A coordinate folded into the image."""
    low, high = (0.0, n - 1.0) if align_corners else (-0.5, n - 0.5)
    if high == low:
        return 0.0
    period = 2 * (high - low)
    phase = (v - low) % period
    return low + min(phase, period - phase)


def _grid_taps(
    g: float, n: int, mode: str, border: str, align_corners: bool
) -> list[tuple[int, float]]:
    """The elements (index, weight) of a dimension behind one coordinate of a grid."""
    v = (g + 1) / 2 * (n - 1) if align_corners else ((g + 1) * n - 1) / 2

    def inner(p: float) -> float:
        if border == "reflection":
            p = _mirror(p, n, align_corners)
        return p if border == "zeros" else min(max(p, 0.0), n - 1.0)

    v = v if mode == "cubic" else inner(v)
    first = math.floor(v)
    if mode == "nearest":
        taps = [(round(v), 1.0)]
    elif mode == "linear":
        taps = [(first, 1 - (v - first)), (first + 1, v - first)]
    else:
        taps = [(int(inner(float(first + k - 1))), w) for k, w in enumerate(_cubic(v - first))]
    return [(at, w) for at, w in taps if 0 <= at < n]


def _mixed(image: Array, lines: Sequence[Sequence[tuple[int, float]]]) -> Array:
    """A point of an image [c, h...] as the sum of the elements behind it."""
    total = np.zeros(image.shape[0], np.float64)
    for taps in itertools.product(*lines):
        at: Index = (slice(None), *[place for place, _ in taps])
        total += image[at] * math.prod([w for _, w in taps])
    return total


@numpy_op
def grid_sample(
    x: Array, grid: Array, *, mode: str, padding_mode: str, align_corners: bool
) -> Array:
    """Every point of the grid by itself."""
    image, places = x.astype(np.float64), grid.astype(np.float64)
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]), np.float64)
    for n, *o in np.ndindex(*grid.shape[:-1]):
        lines = [
            _grid_taps(float(g), h, mode, padding_mode, align_corners)
            for g, h in zip(places[(n, *o)][::-1], x.shape[2:], strict=True)
        ]
        out[(n, slice(None), *o)] = _mixed(image[n], lines)
    return out.astype(x.dtype)


@numpy_op
def affine_grid(theta: Array, *, size: Sequence[int], align_corners: bool) -> Array:
    """The matrices on the coordinates of all pixels."""
    if align_corners:
        lines = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in size]
    else:
        lines = [(2 * np.arange(n) + 1) / n - 1 for n in size]
    place = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(size)], -1)
    grid = np.einsum("nrk,...k->n...r", theta.astype(np.float64), place)
    return np.asarray(grid).astype(theta.dtype)


@numpy_op
def crop_and_resize(
    x: Array, boxes: Array, indices: Array, *, size: Sequence[int], mode: str,
    extrapolation_value: float,
) -> Array:  # fmt: skip
    """Every pixel of every crop by itself."""
    image = x.astype(np.float64)
    out = np.full((len(boxes), x.shape[1], *size), extrapolation_value, np.float64)
    for k, place in itertools.product(range(len(boxes)), np.ndindex(*size)):
        lines: list[list[tuple[int, float]]] = []
        for d, (i, n) in enumerate(zip(place, size, strict=True)):
            last = x.shape[2 + d] - 1
            a, b = float(boxes[k, d]), float(boxes[k, d + 2])
            v = (a + b) / 2 * last if n == 1 else a * last + i * (b - a) * last / (n - 1)
            if not 0 <= v <= last:
                break
            first = math.floor(v)
            if mode == "nearest":
                lines.append([(min(math.floor(v + 0.5), last), 1.0)])
            else:
                lines.append([(first, 1 - (v - first)), (min(first + 1, last), v - first)])
        if len(lines) == 2:
            out[(k, slice(None), *place)] = _mixed(image[int(indices[k])], lines)
    return out.astype(x.dtype)


# --------------------------------------------------------------------------------------- regions


def _pixel_parts(image: Array, y: float, x: float, held: bool) -> list[Array]:
    """The pixels of an image [c, h, w] around a point, each times its weight; those outside are
    the border's (held) or missing."""
    parts = [np.zeros(image.shape[0], np.float64)]
    top, left = math.floor(y), math.floor(x)
    for r, c in itertools.product((top, top + 1), (left, left + 1)):
        weight = (1 - abs(y - r)) * (1 - abs(x - c))
        if held:
            pixel = image[:, min(r, image.shape[1] - 1), min(c, image.shape[2] - 1)]
            parts.append(weight * pixel)
        elif 0 <= r < image.shape[1] and 0 <= c < image.shape[2]:
            parts.append(weight * image[:, r, c])
    return parts


@numpy_op
def roi_align(
    x: Array, rois: Array, *, size: Sequence[int], scale: float, samples: int, mode: str,
    half_pixel: bool,
) -> Array:  # fmt: skip
    """Every part of every region by itself."""
    h, w = x.shape[2:]
    out = np.zeros((len(rois), x.shape[1], *size), np.float64)
    for k, roi in enumerate(rois.astype(np.float64)):
        image = x[int(roi[0])].astype(np.float64)
        begin = roi[[2, 1]] * scale - (0.5 if half_pixel else 0)
        extent = (roi[[4, 3]] - roi[[2, 1]]) * scale
        step = (extent if half_pixel else np.maximum(extent, 1)) / np.array(size)
        counts = [samples if samples > 0 else max(math.ceil(s), 0) for s in step]
        for place in np.ndindex(*size):
            lines = [
                [b + s * (p + (i + 0.5) / n) for i in range(n)]
                for b, s, p, n in zip(begin, step, place, counts, strict=True)
            ]
            points = []
            for u, v in itertools.product(*lines):
                inside = -1 <= u <= h and -1 <= v <= w
                at = min(max(u, 0.0), h - 1.0), min(max(v, 0.0), w - 1.0)
                parts = _pixel_parts(image, *at, True)
                point = np.max(parts[1:], 0) if mode == "max_pixel" else np.sum(parts, 0)
                points.append(point * inside)
            if points:
                pooled = np.mean(points, 0) if mode == "avg" else np.max(points, 0)
                out[(k, slice(None), *place)] = pooled
    return out.astype(x.dtype)


@numpy_op
def roi_pool(x: Array, rois: Array, *, size: Sequence[int], scale: float) -> Array:
    """Every part of every region by itself."""
    out = np.zeros((len(rois), x.shape[1], *size), x.dtype)
    for k, roi in enumerate(rois.astype(np.float64)):
        corners = [math.copysign(math.floor(abs(v) + 0.5), v) for v in roi[1:] * scale]
        begin = [int(corners[1]), int(corners[0])]
        extent = [max(int(corners[3]) - begin[0] + 1, 1), max(int(corners[2]) - begin[1] + 1, 1)]
        for place in np.ndindex(*size):
            cut = [
                slice(min(max(b + p * e // n, 0), h), min(max(b - (-(p + 1) * e // n), 0), h))
                for b, e, p, n, h in zip(begin, extent, place, size, x.shape[2:], strict=True)
            ]
            window: Index = (int(roi[0]), slice(None), *cut)
            part = x[window]
            if part.shape[1] and part.shape[2]:
                out[(k, slice(None), *place)] = part.max((1, 2))
    return out


@numpy_op
def deformable_conv2d(
    x: Array, offset: Array, w: Array, mask: Array | None = None, *, strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int], groups: int, offset_groups: int,
) -> Array:  # fmt: skip
    """Every pixel that a kernel element meets by itself, then the product with the kernel."""
    strides, dilations, pads = strides or (1, 1), dilations or (1, 1), pads or (0, 0, 0, 0)
    (n, c), kernel, size = x.shape[:2], w.shape[2:], offset.shape[2:]
    moved = np.zeros((n, c, *kernel, *size), np.float64)
    shifts = offset.astype(np.float64).reshape(n, offset_groups, *kernel, 2, *size)
    each = c // offset_groups
    for b, g, i, j, p, q in np.ndindex(n, offset_groups, *kernel, *size):
        y = p * strides[0] - pads[0] + i * dilations[0] + shifts[b, g, i, j, 0, p, q]
        z = q * strides[1] - pads[1] + j * dilations[1] + shifts[b, g, i, j, 1, p, q]
        own = slice(g * each, (g + 1) * each)
        parts = _pixel_parts(x[b, own].astype(np.float64), y, z, False)
        moved[b, own, i, j, p, q] = np.sum(parts, 0)
        if mask is not None:
            factor = mask.astype(np.float64).reshape(n, offset_groups, *kernel, *size)
            moved[b, own, i, j, p, q] *= factor[b, g, i, j, p, q]
    filters = w.astype(np.float64).reshape(groups, w.shape[0] // groups, *w.shape[1:])
    columns = moved.reshape(n, groups, c // groups, *kernel, *size)
    result = np.asarray(np.einsum("ngcijpq,gocij->ngopq", columns, filters))
    return result.reshape(n, w.shape[0], *size).astype(x.dtype)


# -------------------------------------------------------------------------- patches and bit planes


@numpy_op
def dilation2d(
    x: Array, w: Array, *, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> Array:
    """Kernel element by kernel element on the moved image."""
    low = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    strides, dilations, pads = strides or (1, 1), dilations or (1, 1), pads or (0, 0, 0, 0)
    border = [(0, 0), (0, 0), *zip(pads[:2], pads[2:], strict=True)]
    image = np.pad(widened(x), border, constant_values=low)
    counts = np.pad(np.ones(x.shape, bool), border, constant_values=False)
    size = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(image.shape[2:], w.shape[1:], strides, dilations, strict=True)
    ]
    out = np.full((*x.shape[:2], *size), low, image.dtype)
    for place in np.ndindex(*w.shape[1:]):
        cut: Index = (..., *[
            slice(t * d, t * d + max(0, (n - 1) * s + 1), s)
            for t, d, n, s in zip(place, dilations, size, strides, strict=True)
        ])  # fmt: skip
        own: Index = (slice(None), *place)
        moved = image[cut] + widened(w)[own][:, None, None]
        out = np.maximum(out, np.where(counts[cut], moved, low))
    return out.astype(x.dtype)


@numpy_op
def correlation(
    a: Array, b: Array, *, kernel_size: int, max_displacement: int, stride1: int, stride2: int,
    pads: Sequence[int], is_multiply: bool,
) -> Array:  # fmt: skip
    """Patch by patch."""
    pads = pads or (0, 0, 0, 0)
    border = [(0, 0), (0, 0), *zip(pads[:2], pads[2:], strict=True)]
    left, right = [np.pad(t.astype(np.float64), border) for t in (a, b)]
    edge, reach = max_displacement + kernel_size // 2, max_displacement // stride2
    size = [-(-(n - 2 * edge) // stride1) for n in left.shape[2:]]
    moves = list(itertools.product(range(-reach, reach + 1), repeat=2))
    out = np.zeros((a.shape[0], len(moves), *size), np.float64)
    for q, (dy, dx) in enumerate(moves):
        for i, j in np.ndindex(*size):
            y, x = i * stride1 + max_displacement, j * stride1 + max_displacement
            v, u = y + dy * stride2, x + dx * stride2
            p = left[:, :, y : y + kernel_size, x : x + kernel_size]
            o = right[:, :, v : v + kernel_size, u : u + kernel_size]
            out[:, q, i, j] = (p * o if is_multiply else np.abs(p - o)).mean((1, 2, 3))
    return out.astype(a.dtype)


@numpy_op
def bitpack(x: Array, *, bits: int, pack_axis: int, bit_axis: int, pack_type: str) -> Array:
    """Words from strings of binary digits."""
    width, axis = np.dtype(pack_type).itemsize * 8, pack_axis % x.ndim
    last = np.moveaxis(x, axis, -1)
    words = last.reshape(*last.shape[:-1], -1, width)
    planes = []
    for b in range(bits):
        digits = (words.astype(object) >> b) & 1
        values = np.zeros(words.shape[:-1], object)
        for k in range(width):
            values = values * 2 + digits[..., k]
        planes.append(np.moveaxis(values.astype(pack_type), -1, axis))
    return np.stack(planes, bit_axis % (x.ndim + 1))


@numpy_op
def bitunpack(x: Array, *, pack_axis: int, bit_axis: int, dtype: str) -> Array:
    """Integers from strings of binary digits."""
    width, axis = x.dtype.itemsize * 8, pack_axis % (x.ndim - 1)
    out: Array | None = None
    for b, plane in enumerate(np.moveaxis(x, bit_axis, 0)):
        last = np.moveaxis(plane, axis, -1).astype(object)
        digits = np.stack([(last >> (width - 1 - k)) & 1 for k in range(width)], -1)
        values = digits.reshape(*last.shape[:-1], -1) << b
        out = values if out is None else out + values
    assert out is not None
    wrapped = out.astype(np.uint64).astype(dtype)
    return np.moveaxis(wrapped, -1, axis)
