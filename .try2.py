exec(open('.try.py').read().replace("relay.Tuple([h, relay.sigmoid(h)]).fields[1]","relay.sigmoid(h)"))
from smelt.relay import parser
from smelt.ir.equal import assert_structural_equal as ase
ase(parser.parse(mod.astext()), mod)
mod2=tvm.IRModule.from_expr(f); 
for m in (mod2, relay.transform.FuseOps(3)(mod2)):
    t=m.astext(); ase(parser.parse(t), m); assert parser.parse(t).astext()==t
print(parser.parse_expr("""
fn (%x: Tensor[(n, 10), float32], %y) { // hello /* 
 /* nested /* x */ */
 let %z = -%x * 2f + %x / 3.0;
 %0 = (%z, %y);
 %0.0 + 1.f
}"""))
