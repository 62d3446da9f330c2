"""Branches, loops, lists and sizes that are known at run time."""

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay.loops import while_loop
from tvm.runtime.vm import Executable, VirtualMachine

from .models import close


def counting():
    """main(n) = 0 + 1 + ... + 1 by recursion."""
    mod, loop = tvm.IRModule(), relay.GlobalVar("loop")
    i, total = relay.var("i", shape=(), dtype="int32"), relay.var("total", shape=())
    sb = relay.ScopeBuilder()
    with sb.if_scope(relay.equal(i, relay.const(0, "int32"))):
        sb.ret(total)
    with sb.else_scope():
        left = sb.let("left", relay.subtract(i, relay.const(1, "int32")))
        sb.ret(loop(left, relay.add(total, relay.const(1.0))))
    mod[loop] = relay.Function([i, total], sb.get(), ret_type=relay.TensorType((), "float32"))
    n = relay.var("n", shape=(), dtype="int32")
    mod["main"] = relay.Function([n], loop(n, relay.const(0.0)))
    return mod


def test_recursion_and_files(tmp_path):
    exe = relay.vm.compile(counting(), target="llvm")
    vm = VirtualMachine(exe, tvm.cpu(0))
    vm.set_input("main", np.array(5, "int32"))
    assert float(vm.run()) == 5
    assert float(vm.invoke("main", np.array(3, "int32"))) == 3
    assert float(vm.get_outputs()[0]) == 3
    code, lib = exe.save()
    lib.export_library(str(tmp_path / "count.so"))
    loaded = Executable.load_exec(code, tvm.runtime.load_module(str(tmp_path / "count.so")))
    assert float(VirtualMachine(loaded, tvm.cpu()).invoke("main", np.array(4, "int32"))) == 4
    other = relay.vm.compile(relay.Function([], relay.const(1.0)), "llvm")
    with pytest.raises(tvm.TVMError, match="not of one program"):
        Executable.load_exec(other.save()[0], loaded)
    with pytest.raises(tvm.TVMError, match="give what load_module gave"):
        Executable.load_exec(code, None)


def test_a_while_loop():
    i, s = [relay.var(n, shape=(), dtype="int32") for n in "is"]
    five, one = relay.const(5), relay.const(1)
    loop = while_loop(lambda i, s: relay.less(i, five), [i, s], lambda i, s: [i + one, s + i])
    start = relay.var("start", shape=(), dtype="int32")
    whole = relay.Function([start], relay.TupleGetItem(loop(start, relay.const(0)), 1))
    for kind in ("vm", "debug"):
        run = relay.create_executor(kind, mod=tvm.IRModule.from_expr(whole)).evaluate()
        assert int(run(np.array(1, "int32"))) == 1 + 2 + 3 + 4
    with pytest.raises(tvm.TVMError, match="gives 1 values, the loop has 2"):
        while_loop(lambda i, s: relay.less(i, five), [i, s], lambda i, s: [i])
    with pytest.raises(tvm.TVMError, match="variables with types"):
        while_loop(lambda i: i, [relay.var("i")], lambda i: [i])


def test_blocks_have_to_be_whole():
    x = relay.var("x", shape=(2,))
    sb = relay.ScopeBuilder()
    with pytest.raises(tvm.TVMError, match="the builder has no ret"):
        sb.get()
    with pytest.raises(tvm.TVMError, match="else_scope without an if_scope"), sb.else_scope():
        pass
    with pytest.raises(tvm.TVMError, match="if_scope has no ret"), sb.if_scope(relay.const(True)):
        pass
    sb.ret(x)
    with pytest.raises(tvm.TVMError, match="let after ret"):
        sb.let("y", x)
    assert sb.get() is x


def test_branches():
    flag, x = relay.var("flag", shape=(), dtype="bool"), relay.var("x", shape=(2,))
    both = relay.Function([flag, x], relay.If(flag, relay.nn.relu(x), relay.negative(x)))
    given = np.array([-1, 2], "float32")
    for kind in ("vm", "debug"):
        run = relay.create_executor(kind, mod=tvm.IRModule.from_expr(both)).evaluate()
        close(run(True, given), np.array([0, 2], "float32"))
        close(run(False, given), -given)


@pytest.mark.parametrize("enter", [relay.Prelude, lambda mod: mod.import_from_std("prelude.rly")])
def test_lists(enter):
    mod = tvm.IRModule()
    enter(mod)
    _, cons, nil = mod.get_type("List")
    length = mod.get_global_var("length")
    made = cons(relay.const(1), cons(relay.const(2), nil()))
    mod["main"] = relay.Function([], length(made))
    assert int(relay.create_executor("vm", mod=mod).evaluate()()) == 2
    with pytest.raises(KeyError, match="nearest: length"):
        mod.get_global_var("lenght")
    with pytest.raises(KeyError, match=r"there are: prelude\.rly"):
        mod.import_from_std("gradient.rly")


def test_sizes_at_run_time():
    x = relay.var("x", shape=(relay.Any(), 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(x)))
    for kind in ("vm", "graph", "debug"):
        run = relay.create_executor(kind, mod=mod, device=tvm.cpu(), target="llvm").evaluate()
        for n in (1, 4):
            close(run(np.ones((n, 3), "float32")), np.full((n, 3), 1 / 3, "float32"))
