from smelt import relay
for t in ["fn (%x: Tensor[(2, 3), float32]) -> Tensor[(3, 2), float32] {\n  %x }",
  "@f(3)", "def @f(%x: int32) -> int32 { %x }\ndef @main() { @g(1) }", "def @f(%x: int32) -> int32 { %x }\ndef @main() { @f(1, 2) }", "add(1f, 2i65)", "5000000000", "fn (%x: Tensor[(2, 3), float32]) { nn.dense(%x, %x, units=7) }",
 "("*200+")"*200, "fn (%x: int32) { %0 = %x + 1; %0 = %x + 2; %0 }", "fn (%x: int32) { %x + 1; %x }", "if (True) { 1 } else { 2f }", "let %x = 1f; add(%x, %x",
 "@T.prim_func\ndef f(): pass", "fn (%x: Tensor[(2, 3), float32]) {nn.softmax(%x, axis=\"hello\") }", "-"*3000+"1", "fn (%x: float32) {%x(1)}", "fn(%x: Tensor[(1+, 3), float32]) { %x }", "fn (%a: int32, %b: int32) { match (%a) { Cons(%x) => 1 } }", "def main() { 1 }", "", "def @f(%x: int32) { %y }", "relu(%x)","type L { A(L), A }\n1", "fn (%x: Foo) { %x }"," fn (%x: Tensor[(3), float32]) { %x + %x ", "let %x = 5", "1 2", "%0 = 1; %0;", "/* abc", 'fn (%"ab: int32) { 1 }', "nanf + inff64", "meta[relay.Constant][5]", "strided_slice(1f, begin=[1, flase])"]:
    try: print(repr(t[:40])); print(relay.parse(t) if "def" in t else relay.parse_expr(t))
    except Exception as e: print(type(e).__name__, str(e)[:600])
