"""Small names of the tensor level, used as programs of the classic stack use them."""

import numpy as np
import pytest
import tvm
from tvm import arith, te, tir

n, m = tir.Var("n", "int64"), tir.Var("m", "int64")

BY_KEYWORD = [
    ("simplify", lambda a: a.simplify(expr=n - n), 0),
    ("rewrite_simplify", lambda a: a.rewrite_simplify(expr=n * 2 - n), n),
    ("canonical_simplify", lambda a: a.canonical_simplify(expr=n * 2 - n), n),
    ("const_int_bound", lambda a: a.const_int_bound(expr=n).max_value, 7),
    ("modular_set", lambda a: a.modular_set(expr=m * 4 + 1).coeff, 4),
    ("int_set", lambda a: a.int_set(expr=m, dom_map={m: (0, 3)}).max_value, 2),
    ("can_prove", lambda a: a.can_prove(expr=n < 8), True),
    ("can_prove_equal", lambda a: a.can_prove_equal(lhs=n + n, rhs=2 * n), True),
    ("bind", lambda a: a.bind(var=m, expr=n) or a.simplify(m - n), 0),
    ("linear", lambda a: arith.detect_linear_equation(expr=n * 3 + 5, var_list=[n])[1], 5),
    ("clip", lambda a: arith.detect_clip_bound(expr=n < 5, var_list=[n])[1], 4),
    ("deduce", lambda a: arith.deduce_bound(var=n, cond=n < 5, hint_map={}, relax_map={}), None),
    ("iter_map", lambda a: arith.detect_iter_map(indices=[n], input_iters={n: (0, 8)}).errors, ()),
    ("iter_simplify", lambda a: arith.iter_map_simplify(indices=[n], input_iters={n: 8})[0], n),
    ("inequalities", lambda a: arith.solve_linear_inequalities(equations=[n >= 1]), None),
    ("ceildiv", lambda a: tir.ceildiv(lhs=7, rhs=2), 4),
    ("floordiv", lambda a: tir.floordiv(a=-7, b=2), -4),
    ("floormod", lambda a: tir.floormod(a=-7, b=2), 1),
    ("likely", lambda a: tir.likely(cond=n < 1).args[0] is (n < 1), True),
    ("cpu", lambda a: tvm.cpu(dev_id=0), tvm.cpu()),
    ("device", lambda a: tvm.device(dev_type="cuda", dev_id=1), tvm.cuda(dev_id=1)),
    ("array", lambda a: tvm.nd.array(arr=np.arange(3)).numpy().sum(), 3),
    ("from_dlpack", lambda a: tvm.nd.from_dlpack(dltensor=np.arange(3)).numpy().sum(), 3),
    ("copyfrom", lambda a: tvm.nd.empty((2,)).copyfrom(source_array=[1, 2]).numpy().sum(), 3),
    (
        "load_param_dict",
        lambda a: [*tvm.runtime.load_param_dict(param_bytes=tvm.runtime.save_param_dict({}))],
        [],
    ),
    ("from_func", lambda a: tir.IndexMap.from_func(mapping_function=lambda i: i).inputs, None),
    ("undefined_vars", lambda a: tir.analysis.undefined_vars(n + m, defs=[m]), [n]),
]


@pytest.mark.parametrize(("call", "expected"), [c[1:] for c in BY_KEYWORD],
                         ids=[c[0] for c in BY_KEYWORD])  # fmt: skip
def test_parameters_have_their_classic_names(call, expected):
    analyzer = arith.Analyzer({n: (0, 8)})
    found = call(analyzer)
    assert found is not None
    assert expected is None or found is expected or bool(found == expected)


def test_a_program_of_tensors_by_keyword():
    A = te.placeholder((4,), name="A")
    func = te.create_prim_func(ops=[A, te.compute((4,), lambda i: A[i] + 1, name="B")])
    assert tir.analysis.verify_well_formed(obj=func)
