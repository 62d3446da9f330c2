import numpy as np
import pytest

from .cases import Case, data
from .compiled import check_all

FLOATS = ("float32", "float16", "float64", "bfloat16")
UNARY = {
    "exp": (-3, 3), "log": (0.1, 5), "sqrt": (0, 9), "rsqrt": (0.1, 9), "tanh": (-3, 3),
    "sigmoid": (-6, 6), "erf": (-3, 3), "sin": (-4, 4), "cos": (-4, 4), "tan": (-1.2, 1.2),
    "asin": (-1, 1), "acos": (-1, 1), "atan": (-4, 4), "sinh": (-2, 2), "cosh": (-2, 2),
    "asinh": (-4, 4), "acosh": (1.1, 5), "atanh": (-0.9, 0.9), "reciprocal": (0.3, 4),
    "softplus": (-5, 5), "softsign": (-5, 5), "mish": (-5, 5), "silu": (-5, 5),
    "hard_swish": (-5, 5), "floor": (-3, 3), "ceil": (-3, 3), "trunc": (-3, 3), "round": (-3, 3),
    "abs": (-3, 3), "negative": (-3, 3), "sign": (-3, 3), "relu": (-3, 3), "square": (-3, 3),
    "identity": (-3, 3),
}  # fmt: skip
WITH_ATTRIBUTES = [
    ("leaky_relu", {}), ("leaky_relu", {"alpha": 0.2}), ("elu", {"alpha": 0.7}), ("selu", {}),
    ("celu", {"alpha": 1.5}), ("gelu", {}), ("gelu", {"approximate": "tanh"}),
    ("hard_sigmoid", {}), ("hard_sigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    ("thresholded_relu", {"alpha": 0.6}), ("clip", {"min": -1.0, "max": 1.5}),
    ("clip", {"min": 0.0}), ("clip", {"max": 0.5}), ("clip", {}),
]  # fmt: skip
INTEGERS = ("int8", "int32", "int64", "uint8")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str, dtype: str) -> None:
    low, high = UNARY[name]
    Case(name, data((3, 5), dtype, low, high)).check()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "attrs"), WITH_ATTRIBUTES)
def test_activations(name: str, attrs: dict[str, float], dtype: str) -> None:
    Case(name, data((2, 3, 4), dtype), symbolic={0: {1: "n"}}, **attrs).check()


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "name", ["abs", "negative", "sign", "relu", "floor", "bitwise_not", "square"]
)
def test_functions_of_integers(name: str, dtype: str) -> None:
    Case(name, data((4, 3), dtype)).check()


def test_clip_of_integers() -> None:
    Case("clip", data((20,), "int8", -100, 100), min=-20.0, max=50.0).check()
    Case("clip", data((20,), "uint8", 0, 200), min=-20.0, max=1e9).check()


def test_special_values() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], np.float32)
    for name in ("relu", "sign", "negative", "isnan", "isinf", "abs", "floor", "softplus"):
        Case(name, x).check()
    Case("isinf", x, detect_negative=False).check()
    Case("isinf", x, detect_positive=False).check()
    Case("isinf", x, detect_positive=False, detect_negative=False).check()
    assert np.signbit(Case("negative", x).numpy()[0][0])
    Case("round", np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4999998], np.float32)).check()
    Case("logical_not", data((4, 2), "bool")).check()


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "float64", "int8", "int64", "uint8", "bool"]
)
@pytest.mark.parametrize("source", ["float32", "float16", "int32", "uint8", "bool"])
def test_cast(source: str, dtype: str) -> None:
    Case("cast", data((3, 4), source, 0 if dtype.startswith("u") else -3, 3), dtype=dtype).check()


BINARY = ("add", "subtract", "multiply", "divide", "minimum", "maximum", "mod", "fmod",
          "floor_divide", "equal", "not_equal", "less", "less_equal", "greater",
          "greater_equal")  # fmt: skip
SHAPES = [((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((), (2, 2)), ((1,), (5,))]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "int64"])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, dtype: str) -> None:
    for a, b in SHAPES:
        y = (
            data(b, dtype, 1, 3)
            if name in ("mod", "fmod", "divide", "floor_divide")
            else data(b, dtype)
        )
        Case(name, data(a, dtype, -9, 9), y).check()
        Case(name, data(a, dtype, -9, 9), -y).check()


def test_python_and_c_remainders_differ() -> None:
    a, b = np.array([-7, 7, -7, 7], np.int32), np.array([3, -3, -3, 3], np.int32)
    assert Case("mod", a, b).numpy()[0].tolist() == [2, -2, -1, 1]
    assert Case("fmod", a, b).numpy()[0].tolist() == [-1, 1, -1, 1]
    assert Case("divide", a, b).numpy()[0].tolist() == [-2, -2, 2, 2]
    assert Case("floor_divide", a, b).numpy()[0].tolist() == [-3, -3, 2, 2]


def test_division_of_integers_by_zero_gives_zero() -> None:
    a, b = np.array([-7, 7, 0], np.int32), np.array([0, 0, 0], np.int32)
    for name in ("divide", "mod", "fmod", "floor_divide"):
        case = Case(name, a, b)
        case.check()
        assert case.numpy()[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_power(dtype: str) -> None:
    Case("power", data((3, 4), dtype, 0.1, 3), data((4,), dtype)).check()


def test_power_of_integers() -> None:
    Case("power", data((3, 4), "int32"), data((3, 4), "int32", 0, 4)).check()


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic(name: str) -> None:
    Case(name, data((3, 4), "bool"), data((4,), "bool")).check()


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_bits(dtype: str) -> None:
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        Case(name, data((3, 4), dtype, -100, 100), data((4,), dtype, -100, 100)).check()
    for name in ("left_shift", "right_shift"):
        Case(name, data((3, 4), dtype, -20, 20), data((4,), dtype, 0, 3)).check()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_shifts_by_any_number_of_places(dtype: str) -> None:
    """Behind the width and before the start nothing is left but the sign."""
    places = np.array([0, 1, 7, 8, 31, 32, 63, 64, 100, -1, -100]).astype(dtype)
    values = np.array([[-128], [-2], [5], [127]]).astype(dtype)
    for name in ("left_shift", "right_shift"):
        Case(name, values, places).check()


def test_where_and_prelu() -> None:
    Case("where", data((3, 1), "bool"), data((4,)), data((2, 3, 4))).check()
    Case("where", data((3, 4), "bool"), data((3, 4), "int64"), data((), "int64")).check()
    Case("prelu", data((2, 3, 4)), data((3, 1))).check()


def test_unknown_extents_are_taken_to_be_equal() -> None:
    Case("add", data((3, 4)), data((3, 4)), symbolic={0: {0: "n"}, 1: {0: "m"}}).check()
    Case("add", data((3, 4)), data((3, 4)), symbolic={0: {0: "n"}}).check()
    Case("add", data((3, 4)), data((1, 4)), symbolic={0: {0: "n"}}).check()
    Case("add", data((4,)), data((3, 4)), symbolic={0: {0: "m"}, 1: {0: "n", 1: "m"}}).check()


def test_truth_values_are_ordered_and_have_one_bit() -> None:
    a, b = np.array([[False], [True]]), np.array([False, True])
    names = ("minimum", "maximum", "less", "less_equal", "greater", "greater_equal",
             "bitwise_and", "bitwise_or", "bitwise_xor")  # fmt: skip
    check_all([*[Case(n, a, b) for n in names], Case("bitwise_not", b)])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
def test_leading_zeros(dtype: str) -> None:
    ends = np.iinfo(dtype)
    some = [0, 1, 2, 3, 63, 64, 65, 127, ends.max, ends.max - 1, ends.min, ends.max // 2]
    check_all([Case("clz", np.array(some, dtype))])


def test_integers_are_finite_numbers() -> None:
    check_all([
        Case(name, data((2, 3), dtype))
        for name in ("isnan", "isinf", "isfinite") for dtype in ("int8", "uint64", "bool")
    ])  # fmt: skip
