"""A model with what CMSIS-NN computes as functions of their own."""

from __future__ import annotations

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.node import ordered
from smelt.relax.graph import operands
from smelt.relax.nodes import Call, Function, GlobalVar, RelaxExpr, Var, call
from smelt.relax.transform.engine import rebuild
from smelt.relax.transform.rescale_in_integers import as_on_boards

from .emit import COMPILER, CORES, MCPU
from .match import TO_CHANNELS, TO_PIXELS, Pairs, Part, Pool, Product, part_of, replaced, shape_of


def partition(mod: IRModule, name: str = "default", mcpu: str = "") -> IRModule:
    """A module in which every call of CMSIS-NN is a function of the compiler "cmsis-nn".

    name  what the functions' names begin with: tvmgen_NAME_cmsis_nn_main_0, ...
    mcpu  the processor, which tells how much memory calls work in; "": enough for every one

    What the library does not compute as TFLite does, number for number, stays smelt's; models with
    QuantizeLinear and DequantizeLinear are brought into that form first, to within a step.
    """
    if mcpu and mcpu not in CORES:
        raise CompileError(f"mcpu is {mcpu!r}; legal: {', '.join(CORES)}, or '' for every one")
    return _Partitioner(as_on_boards(mod), name, mcpu).partitioned()


class _Partitioner:
    """Takes the "main" of one module apart."""

    def __init__(self, mod: IRModule, name: str, mcpu: str) -> None:
        self.mod, self.name, self.mcpu = mod, name, mcpu
        self.parts: dict[RelaxExpr, Part] = {}
        self.functions: dict[str, Function] = {}
        self.done: dict[RelaxExpr, RelaxExpr] = {}
        self.pixels: dict[RelaxExpr, RelaxExpr] = {}
        self.images: set[RelaxExpr] = set()

    def partitioned(self) -> IRModule:
        """Everything."""
        main = self.mod["main"]
        for v in ordered([main.body], self.needed):
            part = self.parts.get(v)
            if part is None:
                self.done[v] = self.moved(v) or rebuild(v, self.done)
                if self.made_of_image(v):
                    self.images.add(v)
            else:
                self.take(v, part)
        body = self.done[main.body]
        made = {"main": main.replace(body=body), **self.functions} if self.functions else {}
        return self.mod.with_functions(made)

    def needed(self, v: RelaxExpr) -> list[RelaxExpr]:
        """What has to be there before a value."""
        part = part_of(v)
        if part is None:
            return operands(v)
        self.parts[v] = part
        return list(part.inputs)

    def moved(self, v: RelaxExpr) -> RelaxExpr | None:
        """What a part made, where it is wanted with the channels behind the pixels anyway."""
        if isinstance(v, Call) and v.callee == "transpose" and v.attrs["axes"] == TO_PIXELS:
            return self.pixels.get(v.args[0])  # type: ignore[arg-type]
        return None

    def as_pixels(self, v: RelaxExpr) -> RelaxExpr:
        """The new form of an image with channels behind the pixels."""
        if v not in self.pixels:
            turned = isinstance(v, Call) and v.callee == "transpose"
            if turned and v.attrs["axes"] == TO_CHANNELS:  # type: ignore[attr-defined]
                self.pixels[v] = self.done[v.args[0]]  # type: ignore[attr-defined]
            else:
                self.pixels[v] = call("transpose", self.done[v], axes=TO_PIXELS)
        return self.pixels[v]

    def made_of_image(self, v: RelaxExpr) -> bool:
        """Whether a value is an image with channels behind the batch, as convolutions give them,
        or was made of one element by element."""
        if isinstance(v, Call) and v.callee == "transpose":
            return bool(v.attrs["axes"] == TO_CHANNELS)
        shape = shape_of(v)
        return any(o in self.images and shape_of(o) == shape for o in operands(v))

    def is_image(self, part: Part) -> bool:
        """Whether operands and result are images with channels behind the batch, which the library
        wants behind the pixels: of elements they are where the operands are images anyway."""
        match part:
            case Product(window=window):
                return window is not None
            case Pairs(inputs):
                return any(x in self.images for x in inputs)
        return isinstance(part, Pool)

    def take(self, v: RelaxExpr, part: Part) -> None:
        """Make a function of a part, and a call of it."""
        image = self.is_image(part)
        unique = list(dict.fromkeys(part.inputs))
        given = [self.as_pixels(x) if image else self.done[x] for x in unique]
        params = [Var(f"x{n}", x.type) for n, x in enumerate(given)]
        inner = [call("transpose", p, axes=TO_CHANNELS) if image else p for p in params]
        body = replaced(v, dict(zip(unique, inner, strict=True)))
        turned = isinstance(part, Product) and part.turned
        back = image and not turned
        body = call("transpose", body, axes=TO_PIXELS) if back else body
        symbol = f"tvmgen_{self.name}_cmsis_nn_main_{len(self.functions)}"
        attrs = {"Compiler": COMPILER, "global_symbol": symbol, "Primitive": 1}
        attrs |= {MCPU: self.mcpu} if self.mcpu else {}
        self.functions[symbol] = Function(tuple(params), body, attrs)
        made = Call(GlobalVar(symbol), tuple(given), {}, body.type)
        if back:
            self.pixels[v] = made
            self.images.add(v)
            self.done[v] = call("transpose", made, axes=TO_CHANNELS)
        else:
            self.done[v] = made
