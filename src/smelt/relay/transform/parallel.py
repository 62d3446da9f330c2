"""Operators that read the same tensor side by side become one, followed by slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.relax.graph import transform, uses_of
from smelt.relax.nodes import Call, Function, RelaxExpr, Tuple, renewed_call
from smelt.relax.transform.match import dims, dtype_of, rank_of
from smelt.relax.transform.rewriting import map_functions
from smelt.transform import Pass, Sequential

from ..dialect import is_call, make
from .passes import graph_pass

Key = Callable[[Call], Any]


def CombineParallelConv2D(min_num_branches: int = 3) -> Pass:
    """nn.conv2d of one tensor with several weights become one, with a bias and relu behind them.

    min_num_branches  convolutions there have to be
    """
    how = _How("nn.conv2d", _conv_key, _conv_axis, lambda n: n.attrs["kernel_layout"].index("O"))
    return _combining("CombineParallelConv2D", how, min_num_branches)


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> Pass:
    """nn.dense of one tensor with several weights become one product.

    to_batch  one nn.batch_matmul of matrices of one shape; else one nn.dense of all rows
    """
    if to_batch:
        return graph_pass(
            "CombineParallelDense",
            lambda mod: map_functions(mod, lambda f: _batched(f, min_num_branches)),
        )
    how = _How("nn.dense", _dense_key, lambda n: rank_of(n) - 1, lambda n: 0)
    return _combining("CombineParallelDense", how, min_num_branches)


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> Pass:
    """nn.batch_matmul of one tensor with several others become one."""
    how = _How("nn.batch_matmul", _matmul_key, lambda n: 2,
               lambda n: 1 if n.attrs["transpose_b"] else 2)  # fmt: skip
    return _combining("CombineParallelBatchMatmul", how, min_num_branches)


def BatchingOps() -> Pass:
    """All three of them."""
    return Sequential(
        [CombineParallelConv2D(), CombineParallelDense(), CombineParallelBatchMatmul()],
        name="BatchingOps",
    )


class _How:
    """How calls of one operator are combined.

    key       what the calls of a group have in common; None: such a call is left alone
    axis      the axis of the result that the parts lie along
    rows      the axis of the weights that they come from
    """

    def __init__(
        self, op: str, key: Key, axis: Callable[[Call], int], rows: Callable[[Call], int]
    ) -> None:
        self.op, self.key, self.axis, self.rows = op, key, axis, rows


def _combining(name: str, how: _How, least: int) -> Pass:
    if least < 2:
        raise CompileError(f"{name}: min_num_branches={least}; 2 or more are legal")
    return graph_pass(name, lambda mod: _combined(mod, how, least))


def _combined(mod: IRModule, how: _How, least: int) -> IRModule:
    return map_functions(mod, lambda f: _Combine(f, how).run(least))


def groups_of(f: Function, how_key: Key, op: str) -> list[list[Call]]:
    """Calls of an operator that read one tensor and have one key, in the order of the graph."""
    found: dict[Any, list[Call]] = {}
    for n in postorder(f):
        if is_call(n, op):
            key = how_key(n)
            if key is not None:
                found.setdefault((n.args[0], key), []).append(n)
    return list(found.values())


class _Combine:
    """The groups of one function."""

    def __init__(self, f: Function, how: _How) -> None:
        self.f, self.how = f, how
        self.uses = uses_of(f)
        self.users: dict[Node, Node] = {}
        for n in postorder(f):
            for c in n.children():
                self.users[c] = n

    def run(self, least: int) -> Function:
        """The function with its groups combined."""
        places: dict[Node, tuple[list[list[Call]], int]] = {}
        for group in groups_of(self.f, self.how.key, self.how.op):
            if len(group) < least or self.depend(group):
                continue
            chains = self.chains(group)
            at = 0
            for chain in chains:
                places[chain[-1]] = (chains, at)
                at += dims(chain[0].args[1])[self.how.rows(chain[0])] or 0
        if not places:
            return self.f
        joint: dict[Node, RelaxExpr] = {}

        def slices(old: Any, new: Any) -> RelaxExpr | None:
            if old not in places:
                return None
            chains, at = places[old]
            first = chains[0][0]
            if first not in joint:
                x = new
                for _ in chains[0]:
                    x = x.args[0]
                joint[first] = self.whole(x, chains)
            axis = self.how.axis(chains[0][0])
            end = at + (dims(old)[axis] or 0)
            return make("strided_slice", joint[first], begin=(at,), end=(end,), strides=(1,),
                        axes=(axis,))  # fmt: skip

        return transform(self.f, slices)  # type: ignore[no-any-return]

    def depend(self, group: list[Call]) -> bool:
        """Whether the weights of one are computed from the result of another."""
        own = set(group)
        return any(n in own for c in group for a in c.args[1:] if a for n in postorder(a))

    def chains(self, group: list[Call]) -> list[list[Call]]:
        """Each call with what follows it, as far as the same follows all of them."""
        chains = [[c] for c in group]
        while True:
            nexts = [self.next(chain[-1], self.how.axis(chain[0])) for chain in chains]
            kinds = {(n.callee, tuple(n.attrs.items())) if n else None for n in nexts}
            if len(kinds) != 1 or None in kinds:
                return chains
            for chain, n in zip(chains, nexts, strict=True):
                assert n is not None
                chain.append(n)

    def next(self, n: Call, axis: int) -> Call | None:
        """The bias or relu that is the only use of a value; a bias along an axis."""
        user = self.users.get(n)
        if self.uses[n] != 1 or not is_call(user, "nn.bias_add", "nn.relu"):
            return None
        along = user.attrs.get("axis", axis)
        return user if user.args[0] is n and along % rank_of(n) == axis else None

    def whole(self, x: RelaxExpr, chains: list[list[Call]]) -> RelaxExpr:
        """The one call for all, and what follows it."""
        heads = [c[0] for c in chains]
        joint = _side_by_side([c.args[1] for c in heads], self.how.rows(heads[0]))
        extra = {"channels": None} if "channels" in heads[0].attrs else {}
        extra |= {"units": None} if "units" in heads[0].attrs else {}
        y: RelaxExpr = renewed_call(heads[0], x, joint, **extra)
        for i, step in enumerate(chains[0][1:], 1):
            rest = [c[i].args[1] for c in chains] if len(step.args) > 1 else []
            y = renewed_call(step, y, *([_side_by_side(rest, 0)] if rest else []))
        return y


def _side_by_side(parts: list[Any], axis: int) -> RelaxExpr:
    return make("concatenate", Tuple(tuple(parts)), axis=axis)


# ------------------------------------------------------------------------------ convolutions


def _conv_key(n: Call) -> Any:
    a, layout = n.attrs, n.attrs["kernel_layout"]
    window = tuple([dims(n.args[1])[layout.index(c)] for c in "HW" if c in layout])
    plain = not any(c.isdigit() for c in layout + a["data_layout"]) and a["groups"] == 1
    names = ("strides", "padding", "dilation", "data_layout", "kernel_layout", "out_layout",
             "out_dtype")  # fmt: skip
    fixed = plain and None not in dims(n.args[1]) and len(window) == 2
    return (window, dtype_of(n.args[1]), *[a[k] for k in names]) if fixed else None


def _conv_axis(n: Call) -> int:
    layout: str = n.attrs["out_layout"] or n.attrs["data_layout"]
    return layout.index("C")


# ------------------------------------------------------------------------- products of matrices


def _dense_key(n: Call) -> Any:
    w = n.args[1]
    return (n.attrs["out_dtype"], dtype_of(w)) if rank_of(w) == 2 and None not in dims(w) else None


def _matmul_key(n: Call) -> Any:
    shape = dims(n.args[1])
    return None if None in shape else (shape[0], tuple(n.attrs.items()))


def _batched(f: Function, least: int) -> Function:
    """Dense layers of one shape as one batch_matmul of stacked operands."""
    if least < 2:
        raise CompileError(f"CombineParallelDense: min_num_branches={least}; 2 or more are legal")
    places: dict[Node, tuple[list[Call], int]] = {}
    check = _Combine(f, _How("nn.dense", _dense_key, lambda n: 1, lambda n: 0))

    def key(n: Call) -> Any:
        known = rank_of(n.args[0]) == 2 and None not in dims(n.args[0])
        return (_dense_key(n), dims(n.args[1])) if known and _dense_key(n) else None

    for group in groups_of(f, key, "nn.dense"):
        if len(group) >= least and not check.depend(group):
            places.update({n: (group, i) for i, n in enumerate(group)})
    joint: dict[Node, RelaxExpr] = {}

    def items(old: Any, new: Any) -> RelaxExpr | None:
        if old not in places:
            return None
        group, i = places[old]
        if group[0] not in joint:
            x = _stack([new.args[0]] * len(group))
            w = _stack([c.args[1] for c in group])
            joint[group[0]] = make("nn.batch_matmul", x, w, out_dtype=old.attrs["out_dtype"])
        part = make("strided_slice", joint[group[0]], begin=(i,), end=(i + 1,), strides=(1,),
                    axes=(0,))  # fmt: skip
        return make("squeeze", part, axis=(0,))

    return transform(f, items) if places else f


def _stack(parts: list[Any]) -> RelaxExpr:
    return _side_by_side([make("expand_dims", p, axis=0) for p in parts], 0)
