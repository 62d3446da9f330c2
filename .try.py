import numpy as np, smelt as tvm
from smelt import relay
x = relay.var("x", shape=(1,3,8,8)); w = relay.var("w", shape=(4,3,3,3))
y = relay.nn.conv2d(x, w, padding=1, channels=4, kernel_size=3)
y = relay.nn.bias_add(y, relay.const(np.ones(4,'float32')))
y = relay.nn.relu(y) + 1.5
f = relay.Function([x, w], y)
mod = tvm.IRModule.from_expr(f)
print(mod.astext()); print(y)
v=relay.var("v"); print(relay.Function([x,w],relay.Let(v, y, v*v+y)))
c=relay.var("c", shape=(), dtype="bool")
h=relay.exp(x)
print(relay.Function([c,x], relay.If(c, relay.tanh(relay.exp(h)), relay.Tuple([h, relay.sigmoid(h)]).fields[1])))
print(relay.transform.FuseOps(3)(mod).astext(False))
mod=tvm.IRModule(); 
List, a = relay.GlobalTypeVar("List"), relay.TypeVar("A")
nil = relay.Constructor("Nil", (), List); cons = relay.Constructor("Cons", (a, List(a)), List)
mod[List] = relay.TypeData(List, (a,), (nil, cons))
xs=relay.var("xs", List(relay.scalar_type("int32"))); hd=relay.var("h"); tl=relay.var("t")
s=relay.GlobalVar("sum")
mod["sum"]=relay.Function([xs], relay.Match(xs,[relay.Clause(relay.PatternConstructor(cons,[relay.PatternVar(hd),relay.PatternVar(tl)]), hd+s(tl)), relay.Clause(relay.PatternConstructor(nil), relay.const(0))]))
mod["main"]=relay.Function([], s(cons(relay.const(1), cons(relay.const(2), nil()))))
print(mod.astext())
