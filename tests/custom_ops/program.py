"""A user's script: its operators live in __main__, which worker processes cannot import."""

import json
import sys
from typing import Any

import numpy as np

import smelt
from smelt import te
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Call, Function, Tuple, TupleGetItem, Var, call, tensor_type_of
from smelt.te import select


@smelt.op
def leaky(x: te.Tensor, *, slope: float = 0.1) -> Any:
    """x where x > 0, slope * x elsewhere."""
    return te.compute(x.shape, lambda *i: select(x[i] > 0, x[i], slope * x[i]), name="leaky")


@smelt.op
def sum_of_squares(x: te.Tensor) -> Any:
    """The squares of each row, added."""
    k = te.reduce_axis((0, x.shape[1]), name="k")
    return te.compute((x.shape[0],), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="squares")


@smelt.op
def halves(x: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """Half, and a half more."""
    small = te.compute(x.shape, lambda *i: x[i] * 0.5, name="small")
    return small, te.compute(x.shape, lambda *i: x[i] * 1.5, name="large")


@smelt.op
def product(a: te.Tensor, b: te.Tensor) -> Any:
    """A matrix product with a schedule of its own."""
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute(
        (a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product"
    )


SCHEDULED: list[int] = []


@product.schedule
def schedule_product(sch: Any, machine: Any) -> None:
    SCHEDULED.append(machine.vector_bytes)
    block = sch.get_block("product")
    i, j, k = sch.get_loops(block)
    j_o, j_i = sch.split(j, [None, 8])
    sch.reorder(i, j_o, k, j_i)
    sch.vectorize(j_i)


def run(body: Call | Tuple, *params: Var) -> tuple[Any, list[str]]:
    mod = IRModule({"main": Function(params, body)})
    exe = smelt.compile(mod, options=smelt.Options(workers=2))
    rng = np.random.default_rng(0)
    shapes = [tensor_type_of(p).fixed_shape() for p in params]
    inputs = [np.asarray(rng.standard_normal(s)).astype("float32") for s in shapes]
    found = exe(*inputs)
    arrays = found if isinstance(found, tuple) else (found,)
    return (inputs, [a.numpy() for a in arrays]), [k["name"] for k in exe.metadata["kernels"]]


def close(a: Any, b: Any) -> bool:
    return bool(np.abs(a - b).max() <= 1e-5 * max(1.0, np.abs(b).max()))


def main() -> dict[str, Any]:
    x = Var("x", tensor_type((5, 24), "float32"))
    w = Var("w", tensor_type((24, 16), "float32"))
    said: dict[str, Any] = {}
    ((a,), (y,)), names = run(call("tanh", call("leaky", call("negative", x), slope=0.5)), x)
    said["elementwise"] = close(y, np.tanh(np.where(-a > 0, -a, -0.5 * a))), names
    ((a,), (y,)), names = run(call("sqrt", call("sum_of_squares", x)), x)
    said["reduction"] = close(y, np.sqrt((a * a).sum(1))), names
    both = call("halves", x)
    ((a,), (y, z)), names = run(Tuple((TupleGetItem(both, 0), TupleGetItem(both, 1))), x)
    said["two results"] = close(y, a / 2) and close(z, a * 1.5), names
    ((a, b), (y,)), names = run(call("relu", call("product", x, w)), x, w)
    said["with a rule"] = close(y, np.maximum(a @ b, 0)), names
    said["scheduled"] = len(SCHEDULED)
    return said


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main()))
