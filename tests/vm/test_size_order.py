"""What a size's value depends on is written in the order of the attributes, not of addresses."""

from smelt.ir.types import TupleType, tensor_type
from smelt.relax.host_ops import call_with_sizes, define_sizes, host_call, run_size
from smelt.relax.nodes import Call, TupleGetItem, Var


def test_sizes_of_one_name_keep_their_order() -> None:
    x = Var("x", tensor_type((1, 1), "float32"))
    told = []
    for n in range(8):
        count = Var(f"n{n}", tensor_type((1,), "int64"))
        made = host_call("sizes", count, type=TupleType((tensor_type([run_size("n")], "uint8"),)))
        told.append(define_sizes(TupleGetItem(made, 0)))
    extents = [t.type.shape[0] for t in told]  # type: ignore[attr-defined]
    for k in range(1, 8):
        for pair in ((0, k), (k, 0)):
            shape = tuple([extents[i] for i in pair])
            held = call_with_sizes("broadcast_to", x, shape=shape).args[0]
            assert isinstance(held, Call)
            assert [id(a) for a in held.args[1:]] == [id(told[i]) for i in pair]
