import time, cProfile, pstats
from smelt import relay
from smelt.ir.equal import structural_equal
x = relay.var("x", shape=(2,))
names = [x, *[relay.var("v", shape=(2,)) for _ in range(10_000)]]
body = names[-1]
for before, v in zip(names[-2::-1], names[:0:-1], strict=True):
    body = relay.Let(v, relay.nn.relu(before), body)
let = relay.Function([x], body)
t=time.time(); s=str(let); t1=time.time(); g=relay.parse_expr(s); t2=time.time(); structural_equal(g,let); t3=time.time()
print(t1-t,t2-t1,t3-t2)
cProfile.run("str(let)", "/tmp/w/text/.o"); pstats.Stats("/tmp/w/text/.o").sort_stats("tottime").print_stats(8)
