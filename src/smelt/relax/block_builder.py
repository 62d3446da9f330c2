"""Graph functions made step by step, as Relax has it.

    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.add(x, x))
            z = bb.emit_output(relax.op.nn.relu(y))
        bb.emit_func_output(z)
    mod = bb.finalize()

A function is a graph of values, so that `emit` gives the value itself and no variable: names and
blocks are only how the text shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from smelt.ir.errors import SmeltError, TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.text import fresh_name
from smelt.ir.types import FuncType, IncompleteType, TensorType, TupleType, Type
from smelt.runtime.errors import nearest
from smelt.te.prim_func import create_prim_func
from smelt.te.tensor import Tensor, placeholder
from smelt.tir.nodes import Buffer

from . import nodes
from .compose.operands import value
from .shapes import call_result, fits, show_type
from .struct_info import struct_info_of


class _Scope:
    """The function that is being built."""

    def __init__(self, name: str, params: list[nodes.Var] | None, attrs: dict[str, Any]) -> None:
        self.name, self.params, self.attrs = name, params, attrs
        self.result: nodes.RelaxExpr | None = None
        self.blocks: list[bool] = []


class BlockBuilder:
    """Builds the functions of a module; see the head of this file."""

    _stack: ClassVar[list[BlockBuilder]] = []

    def __init__(self, mod: IRModule | None = None) -> None:
        """Start from a module, which stays as it is; None: an empty one."""
        self._module = IRModule() if mod is None else IRModule(mod.functions, mod.attrs)
        self._scope: _Scope | None = None
        self._names: set[str] = set()

    @classmethod
    def current(cls) -> BlockBuilder | None:
        """The builder of the innermost `with bb.function(...)` around; None: there is none."""
        return cls._stack[-1] if cls._stack else None

    # ------------------------------------------------------------------------------- functions

    @contextmanager
    def function(
        self,
        name: str,
        params: nodes.Var | Sequence[nodes.Var] | None = None,
        attrs: Mapping[str, Any] | None = None,
        private: bool = False,
    ) -> Iterator[BlockBuilder]:
        """The function that the statements below make; it ends with emit_func_output.

        params   its parameters; None: emit_func_output tells them
        private  for functions that only others of the module call (attribute "private")
        """
        if self._scope is not None:
            raise TypeMismatch(
                f"BlockBuilder.function: {self._scope.name!r} is not finished; functions in a "
                "function are relax.Function values"
            )
        if name in self._module:
            raise TypeMismatch(f"BlockBuilder.function: the module has a function {name!r} already")
        full = {**(attrs or {}), **({"private": True} if private else {})}
        self._scope = _Scope(name, None if params is None else _several(params), full)
        self._names = set()
        BlockBuilder._stack.append(self)
        try:
            yield self
            scope = self._scope
            if scope.result is None:
                raise TypeMismatch(
                    f"BlockBuilder.function: {name!r} has no result; call emit_func_output in it"
                )
            params = tuple(scope.params or ())
            self._module[name] = nodes.Function(params, scope.result, scope.attrs)
        finally:
            self._scope = None
            BlockBuilder._stack.pop()

    @contextmanager
    def testing_scope(self, def_vars: Sequence[Any]) -> Iterator[BlockBuilder]:
        """A function without a name, for tests of what is emitted."""
        self._scope = _Scope("", [], {})
        try:
            yield self
        finally:
            self._scope = None

    @contextmanager
    def dataflow(self) -> Iterator[BlockBuilder]:
        """A dataflow block: what is used behind it goes through emit_output."""
        scope = self._inside("dataflow")
        scope.blocks.append(True)
        try:
            yield self
        finally:
            scope.blocks.pop()

    def current_block_is_dataflow(self) -> bool:
        """Whether the innermost block is a dataflow block."""
        return bool(self._scope and self._scope.blocks and self._scope.blocks[-1])

    def begin_scope(self, params: Sequence[nodes.Var] | None = None) -> None:
        """Begin a scope; a graph of values needs none, so that only the nesting is checked."""
        self._inside("begin_scope").blocks.append(False)

    def end_scope(self) -> None:
        """End the innermost scope."""
        blocks = self._inside("end_scope").blocks
        if not blocks or blocks[-1]:
            raise TypeMismatch("BlockBuilder.end_scope: no begin_scope before it")
        blocks.pop()

    def _inside(self, what: str) -> _Scope:
        if self._scope is None:
            raise TypeMismatch(f"BlockBuilder.{what} stands inside of `with bb.function(...)`")
        return self._scope

    # ---------------------------------------------------------------------------------- values

    def emit(self, expr: Any, name_hint: str = "") -> nodes.RelaxExpr:
        """A value of the function, with its type.

        name_hint  what people call it
        """
        self._inside("emit")
        made = self.normalize(expr)
        if isinstance(made, nodes.Call) and name_hint and not made.name:
            made = made.replace(name=self.get_unique_name(name_hint))
        return made

    emit_normalized = emit

    def emit_output(self, output: Any, name_hint: str = "") -> nodes.RelaxExpr:
        """A value of a dataflow block that is used behind it."""
        if not self.current_block_is_dataflow():
            raise TypeMismatch("BlockBuilder.emit_output stands inside of `with bb.dataflow()`")
        return self.emit(output, name_hint)

    def emit_func_output(
        self, output: Any, params: nodes.Var | Sequence[nodes.Var] | None = None
    ) -> None:
        """What the function gives; several values are a tuple."""
        scope = self._inside("emit_func_output")
        if self.current_block_is_dataflow():
            raise TypeMismatch(
                "BlockBuilder.emit_func_output: the dataflow block is not finished; it stands "
                "behind the block"
            )
        if scope.result is not None:
            raise TypeMismatch(f"BlockBuilder: {scope.name!r} has a result already")
        if params is not None:
            if scope.params is not None:
                raise TypeMismatch(f"BlockBuilder: {scope.name!r} has its parameters already")
            scope.params = _several(params)
        scope.result = self.normalize(output)

    def match_cast(self, given: Any, struct_info: Any, name_hint: str = "") -> nodes.MatchCast:
        """A value and a type that is claimed of it; the type may introduce sizes."""
        made = value(given, "BlockBuilder.match_cast: the value")
        t = struct_info_of(struct_info, "BlockBuilder.match_cast: the type")
        if not fits(t, made.type, {}):
            raise TypeMismatch(
                f"BlockBuilder.match_cast: the value is {show_type(made.type)}, it cannot be "
                f"{show_type(t)}"
            )
        return nodes.MatchCast(made, t)

    def normalize(self, expr: Any) -> nodes.RelaxExpr:
        """A value with the type that follows from its operands'."""
        made = value(expr, "BlockBuilder: a value")
        if not isinstance(made, nodes.Call) or not isinstance(made.type, IncompleteType):
            return made
        if isinstance(made.op, nodes.GlobalVar):
            callee = self._module.functions.get(made.op.name)
            if isinstance(callee, nodes.Function) and isinstance(callee.type, FuncType):
                t = call_result(callee.type, [a.type for a in made.args if a is not None])
                return made.replace(type=t)
            return made
        return nodes.renewed_call(made, *made.args)

    def lookup_binding(self, var: nodes.RelaxExpr) -> nodes.RelaxExpr | None:
        """What a value stands for: itself; a parameter stands for nothing."""
        return None if isinstance(var, nodes.Var) else var

    def get_unique_name(self, name_prefix: str) -> str:
        """A name that was not given yet in this function."""
        return fresh_name(name_prefix, self._names)

    # -------------------------------------------------------------------------- tensor programs

    def call_te(self, func: Callable[..., Any], *args: Any, **named: Any) -> nodes.Call:
        """A function of te tensors, applied to values: a tensor program of the module.

        func                 e.g. topi.add: gets te tensors for values, other arguments as they are
        primfunc_name_hint   the program's name; None: the function's
        """
        hint = named.pop("primfunc_name_hint", None) or _name_of(func)
        named.pop("primfunc_attrs", None)
        tensors: dict[nodes.RelaxExpr, Tensor] = {}

        def tensor(x: Any) -> Any:
            if isinstance(x, list | tuple):
                found = [tensor(i) for i in x]
                return found if isinstance(x, list) else tuple(found)
            if not isinstance(x, nodes.RelaxExpr):
                return x
            if isinstance(x, nodes.Tuple):
                return [tensor(i) for i in x.items]
            t = x.type
            if not isinstance(t, TensorType):
                raise TypeMismatch(
                    f"BlockBuilder.call_te: an operand is {show_type(t)}; legal: tensors"
                )
            if x not in tensors:
                tensors[x] = placeholder(t.shape, t.dtype, f"A{len(tensors)}")
            return tensors[x]

        result = func(*[tensor(a) for a in args], **{k: tensor(v) for k, v in named.items()})
        one = not isinstance(result, list | tuple)
        several = [result] if one else list(result)
        for r in several:
            if not isinstance(r, Tensor):
                raise TypeMismatch(
                    f"BlockBuilder.call_te: {hint} gave {type(r).__name__}; legal: a te tensor, or "
                    "a list of them"
                )
        program = nodes.GlobalVar(self._program(hint, list(tensors.values()), several))
        kinds: list[Type] = [TensorType(tuple(r.shape), r.dtype) for r in several]
        return nodes.call_tir(program, list(tensors), kinds[0] if one else TupleType(tuple(kinds)))

    def _program(self, hint: str, tensors: list[Tensor], results: list[Tensor]) -> str:
        """Enter the tensor program of an expression; its name."""
        if any(r in tensors for r in results):
            raise TypeMismatch(f"BlockBuilder.call_te: {hint} gave one of its operands back")
        name = self._function_name(hint)
        program = create_prim_func([*tensors, *results], name)
        shown = {e for t in tensors for e in t.shape}
        free = [p.name for p in program.params if not isinstance(p, Buffer) and p not in shown]
        if free:
            raise TypeMismatch(
                f"BlockBuilder.call_te: {hint} uses the size {free[0]}, which no operand's shape "
                "shows by itself"
            )
        self._module[name] = program
        return name

    def emit_te(self, func: Callable[..., Any], *args: Any, **named: Any) -> nodes.RelaxExpr:
        """`emit(call_te(...))`."""
        hint = str(named.pop("name_hint", ""))
        return self.emit(self.call_te(func, *args, **named), hint)

    # ----------------------------------------------------------------------------- the module

    def _function_name(self, hint: str) -> str:
        building = [self._scope.name] if self._scope is not None else []
        return fresh_name(hint, {*self._module.functions, *building})

    def add_func(self, func: Node, func_name: str) -> nodes.GlobalVar:
        """Enter a function or a tensor program under this name, or one like it that is free."""
        for name, known in self._module.functions.items():
            if known is func:
                return nodes.GlobalVar(str(name))
        name = self._function_name(func_name)
        self._module[name] = func
        return nodes.GlobalVar(name)

    def update_func(self, gv: nodes.GlobalVar | str, updated_func: Node) -> None:
        """Replace a function of the module."""
        name = gv if isinstance(gv, str) else gv.name
        if name not in self._module:
            hint = nearest(name, list(self._module.functions))
            raise TypeMismatch(
                f"BlockBuilder.update_func: the module has no function {name!r}{hint}"
            )
        self._module[name] = updated_func

    def get(self) -> IRModule:
        """The module as it is now; what is built later does not change it."""
        return IRModule(self._module.functions, self._module.attrs)

    def finalize(self) -> IRModule:
        """The module, when all functions are built."""
        if self._scope is not None:
            raise SmeltError(f"BlockBuilder.finalize: {self._scope.name!r} is not finished")
        return self.get()


def _several(given: nodes.Var | Sequence[nodes.Var]) -> list[nodes.Var]:
    """Parameters, checked."""
    params = [given] if isinstance(given, nodes.Var) else list(given)
    for n, p in enumerate(params):
        if not isinstance(p, nodes.Var):
            raise TypeMismatch(
                f"BlockBuilder: parameter {n} is {type(p).__name__} {p!r}; legal: relax.Var"
            )
    return params


def _name_of(func: Any) -> str:
    """What a program made by a function is called."""
    found = str(getattr(func, "name", None) or getattr(func, "__name__", "te_func"))
    return found if found.isidentifier() else "te_func"
