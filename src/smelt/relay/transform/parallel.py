"""Operators that read the same tensor side by side become one, followed by slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from smelt.ir.errors import CompileError
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
    how = _Stacked("nn.dense", _batch_key) if to_batch else _How(
        "nn.dense", _dense_key, lambda n: rank_of(n) - 1, lambda n: 0
    )  # fmt: skip
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
    """How calls of one operator are combined: side by side.

    key       what the calls of a group have in common; None: such a call is left alone
    axis      the axis of the result that the parts lie along
    rows      the axis of the weights that they come from
    """

    def __init__(
        self, op: str, key: Key, axis: Callable[[Call], int], rows: Callable[[Call], int]
    ) -> None:
        self.op, self.key, self.axis, self.rows = op, key, axis, rows

    def follows(self, chain: list[Call], user: Any) -> bool:
        """Whether the only use of a value may be combined, too: a bias along the axis, or relu."""
        if not is_call(user, "nn.bias_add", "nn.relu") or user.args[0] is not chain[-1]:
            return False
        axis = self.axis(chain[0])
        return bool(user.attrs.get("axis", axis) % rank_of(user) == axis)

    def whole(self, x: RelaxExpr, chains: list[list[Call]]) -> RelaxExpr:
        """The one call for all, and what follows it."""
        heads = [c[0] for c in chains]
        joint = _side_by_side([c.args[1] for c in heads], self.rows(heads[0]))
        extra = {n: None for n in ("channels", "units") if n in heads[0].attrs}
        y: RelaxExpr = renewed_call(heads[0], x, joint, **extra)
        for i, step in enumerate(chains[0][1:], 1):
            rest = [c[i].args[1] for c in chains] if len(step.args) > 1 else []
            y = renewed_call(step, y, *([_side_by_side(rest, 0)] if rest else []))
        return y

    def part(self, whole: RelaxExpr, chains: list[list[Call]], n: int) -> RelaxExpr:
        """What the n-th chain has computed."""
        axis = self.axis(chains[n][0])
        at = [sum([dims(c[-1])[axis] or 0 for c in chains[:count]]) for count in (n, n + 1)]
        return make("strided_slice", whole, begin=at[:1], end=at[1:], strides=(1,), axes=(axis,))


class _Stacked(_How):
    """Products of matrices of one shape: as one nn.batch_matmul of stacked operands."""

    def __init__(self, op: str, key: Key) -> None:
        super().__init__(op, key, lambda n: 0, lambda n: 0)

    def follows(self, chain: list[Call], user: Any) -> bool:
        """Nothing does."""
        return False

    def whole(self, x: RelaxExpr, chains: list[list[Call]]) -> RelaxExpr:
        """The product of all."""
        heads = [c[0] for c in chains]
        w = _stack([c.args[1] for c in heads])
        out_dtype = heads[0].attrs["out_dtype"]
        return make("nn.batch_matmul", _stack([x] * len(heads)), w, out_dtype=out_dtype)

    def part(self, whole: RelaxExpr, chains: list[list[Call]], n: int) -> RelaxExpr:
        """One matrix of the result."""
        part = make("strided_slice", whole, begin=(n,), end=(n + 1,), strides=(1,), axes=(0,))
        return make("squeeze", part, axis=(0,))


def _combining(name: str, how: _How, least: int) -> Pass:
    if least < 2:
        raise CompileError(f"{name}: min_num_branches={least}; 2 or more are legal")
    return graph_pass(name, lambda mod: map_functions(mod, lambda f: _combined(f, how, least)))


def _combined(f: Function, how: _How, least: int) -> Function:
    """The function with its groups combined."""
    groups: dict[Any, list[Call]] = {}
    users: dict[Node, Node] = {}
    for n in postorder(f):
        users.update(dict.fromkeys(n.children(), n))
        if is_call(n, how.op) and (key := how.key(n)) is not None:
            groups.setdefault((n.args[0], key), []).append(n)
    places: dict[Node, tuple[list[list[Call]], int]] = {}
    uses = uses_of(f)
    for group in groups.values():
        if len(group) >= least and not _depend(group):
            chains = _chains(group, how, uses, users)
            places.update({chain[-1]: (chains, i) for i, chain in enumerate(chains)})
    joint: dict[Node, RelaxExpr] = {}

    def parts(old: Any, new: Any) -> RelaxExpr | None:
        if old not in places:
            return None
        chains, i = places[old]
        first = chains[0][0]
        if first not in joint:
            for _ in chains[0]:
                new = new.args[0]
            joint[first] = how.whole(new, chains)
        return how.part(joint[first], chains, i)

    return transform(f, parts) if places else f


def _depend(group: list[Call]) -> bool:
    """Whether the weights of one are computed from the result of another."""
    own = set(group)
    return any(n in own for c in group for a in c.args[1:] if a for n in postorder(a))


def _chains(
    group: list[Call], how: _How, uses: Mapping[Node, int], users: Mapping[Node, Node]
) -> list[list[Call]]:
    """Each call with what follows it, as far as the same follows all of them."""
    chains = [[c] for c in group]
    while True:
        nexts: list[Any] = [users.get(chain[-1]) for chain in chains]
        for chain, user in zip(chains, nexts, strict=True):
            if uses[chain[-1]] != 1 or not how.follows(chain, user):
                return chains
        if len({(n.callee, tuple(n.attrs.items())) for n in nexts}) > 1:
            return chains
        for chain, user in zip(chains, nexts, strict=True):
            chain.append(user)


def _side_by_side(parts: list[Any], axis: int) -> RelaxExpr:
    return make("concatenate", Tuple(tuple(parts)), axis=axis)


def _stack(parts: list[Any]) -> RelaxExpr:
    return _side_by_side([make("expand_dims", p, axis=0) for p in parts], 0)


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


def _batch_key(n: Call) -> Any:
    known = rank_of(n.args[0]) == 2 and None not in dims(n.args[0])
    return (_dense_key(n), dims(n.args[1])) if known and _dense_key(n) else None
