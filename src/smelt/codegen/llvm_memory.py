"""LLVM instructions for memory: addresses, loads under guards, stores under masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import is_const
from smelt.ir.errors import InternalError
from smelt.ir.expr import INDEX, Add, Broadcast, Expr, IntImm, Mul, Ramp, Shuffle, cast, const
from smelt.tir.nodes import Buffer, BufferLoad, BufferStore

from .lane_steps import steps_of
from .llvm_emitter import Loaded
from .llvm_ops import ScalarOps
from .llvm_types import llvm_type, mangled, mem_type

_CUT = 16
"""Bytes of a vector that is never cut."""


class MemoryOps(ScalarOps):
    """The part of a function's emitter that knows memory."""

    def address(self, buffer: Buffer, index: Expr) -> str:
        """The pointer to an element: steps by scope depth, the constant last."""
        steps: dict[int, Expr] = {}
        constant = 0
        for term in _terms(index):
            if isinstance(term, IntImm):
                constant += term.value
                continue
            d = len(self.scopes) - 1 if self._has_load(term) else self.depth(term)
            steps[d] = term if d not in steps else Add(steps[d], term)
        pointer, at = self.names[buffer], self.depths[buffer]
        element = mem_type(buffer.type)
        for d in sorted(steps):
            at = max(at, d)
            loaded = self._has_load(steps[d])
            key = (steps[d], pointer, self.guard if loaded else None)
            known: dict[Any, str] = self.scope.loads if loaded else self.scopes[at].values
            if key not in known:
                known[key] = self.moved(element, pointer, self.value(steps[d]), at)
                if loaded:
                    self.remember(key)
            pointer = known[key]
        if constant:
            known, place = self.scope.values, (pointer, constant)
            if place not in known:
                known[place] = self.moved(element, pointer, constant)
            pointer = known[place]
        return pointer

    def moved(self, element: str, pointer: str, by: object, at: int | None = None) -> str:
        """A pointer some elements farther on."""
        return self.assign(f"getelementptr inbounds {element}, ptr {pointer}, i64 {by}", at)

    def pointer(self, e: BufferLoad) -> str:
        """The address of what a load loads."""
        return self.address(e.buffer, _flat(e.indices))

    def load(self, e: BufferLoad) -> str:
        """A load, under the guard that is in force."""
        index = _flat(e.indices)
        scalar = dt.scalar(e.dtype)
        if self.guard is not None and e.buffer.scope == "local" and _is_register(index):
            # registers can be read unguarded; a guarded load would keep them in memory
            outer, self.guard = self.guard, None
            result = self.load(e)
            self.guard = outer
            return result
        if isinstance(index, Ramp) and is_const(index.stride, 1):
            return self._vector_load(e.buffer, index.base, index.lanes, scalar)
        if isinstance(index, Broadcast):
            return self.splat(self._scalar_load(e.buffer, index.value, scalar), scalar, index.lanes)
        if dt.lanes(index.dtype) > 1:
            return self._near(e.buffer, index, scalar) or self._gather(e.buffer, index, scalar)
        return self._scalar_load(e.buffer, index, scalar)

    def _scalar_load(self, buffer: Buffer, index: Expr, scalar: str) -> str:
        return self._element(self._guarded(self.address(buffer, index), None), scalar)

    def _element(self, pointer: str, scalar: str) -> str:
        """The element at a pointer."""
        name = self.assign(f"load {mem_type(scalar)}, ptr {pointer}")
        return self.assign(f"trunc i8 {name} to i1") if scalar == "bool" else name

    def _guarded(self, pointer: str, lane: int | None) -> str:
        """The pointer where the guard holds, else one to zeros."""
        if self.guard is None:
            return pointer
        guard = self.guard
        if self.guard_lanes > 1:
            if lane is None:
                guard = self._any(guard)
            else:
                guard = self.assign(f"extractelement <{self.guard_lanes} x i1> {guard}, i64 {lane}")
        return self.assign(f"select i1 {guard}, ptr {pointer}, ptr @smelt.zero")

    def _any(self, mask: str) -> str:
        """Whether a mask has a lane."""
        kind = f"<{self.guard_lanes} x i1>"
        return self.named(f"@llvm.vector.reduce.or.v{self.guard_lanes}i1", "i1", [(kind, mask)])

    def _masked_load(self, pointer: str, mask: str, lanes: int, scalar: str) -> str:
        """A vector of which only some lanes are loaded, the others are zero."""
        if self._is_wide(lanes, scalar):
            low, high = [
                self._masked_load(p, m, lanes // 2, scalar)
                for p, m in self._halves(pointer, mask, lanes, scalar)
            ]
            half, order = f"<{lanes // 2} x {mem_type(scalar)}>", _counted(0, lanes)
            return self.assign(f"shufflevector {half} {low}, {half} {high}, {order}")
        kind, name = f"<{lanes} x {mem_type(scalar)}>", _masked("load", scalar, lanes)
        self.module.declared[name] = f"declare {kind} {name}(ptr, <{lanes} x i1>, {kind})"
        return self.assign(
            f"call {kind} {name}(ptr align {dt.bytes_of(scalar)} {pointer}, "
            f"<{lanes} x i1> {mask}, {kind} zeroinitializer)"
        )

    def _masked_store(self, pointer: str, mask: str, lanes: int, scalar: str, value: str) -> None:
        """Store the lanes of a vector where a mask holds."""
        kind, name = f"<{lanes} x {mem_type(scalar)}>", _masked("store", scalar, lanes)
        if self._is_wide(lanes, scalar):
            for n, (p, m) in enumerate(self._halves(pointer, mask, lanes, scalar)):
                part = self._half(kind, value, lanes, n)
                self._masked_store(p, m, lanes // 2, scalar, part)
            return
        self.module.declared[name] = f"declare void {name}({kind}, ptr, <{lanes} x i1>)"
        self.line(
            f"call void {name}({kind} {value}, ptr align {dt.bytes_of(scalar)} {pointer}, "
            f"<{lanes} x i1> {mask})"
        )

    def _is_wide(self, lanes: int, scalar: str) -> bool:
        """Whether a vector with a mask has to be cut: LLVM, where it cuts one, loses the size of
        the access, and may end the process when it compares it with others."""
        most = max(_CUT, self.module.vector_bytes)
        return lanes % 2 == 0 and lanes * dt.bytes_of(scalar) > most

    def _halves(
        self, pointer: str, mask: str, lanes: int, scalar: str
    ) -> Iterator[tuple[str, str]]:
        """The pointer and the mask of each half of a vector in memory."""
        for n in range(2):
            at = self.moved(mem_type(scalar), pointer, lanes // 2) if n else pointer
            yield at, self._half(f"<{lanes} x i1>", mask, lanes, n)

    def _half(self, kind: str, value: str, lanes: int, n: int) -> str:
        """The first or the second half of a vector."""
        order = _counted(n * lanes // 2, lanes // 2)
        return self.assign(f"shufflevector {kind} {value}, {kind} poison, {order}")

    def _vector_load(self, buffer: Buffer, base: Expr, lanes: int, scalar: str) -> str:
        memory = f"<{lanes} x {mem_type(scalar)}>"
        pointer = self.address(buffer, base)
        if self.guard is not None and self.guard_lanes > 1:
            loaded = self._masked_load(pointer, self.guard, lanes, scalar)
        else:
            if self.guard is not None:
                self.module.zeros = max(self.module.zeros, lanes * dt.bytes_of(scalar))
            pointer = self._guarded(pointer, None)
            loaded = self.assign(f"load {memory}, ptr {pointer}, align {dt.bytes_of(scalar)}")
        if scalar == "bool":
            return self.assign(f"trunc {memory} {loaded} to <{lanes} x i1>")
        return loaded

    def repeated_word(self, e: Shuffle) -> str | None:
        """32 bits of memory again and again: as a number in all lanes, which all processors have
        instructions for. None: it is something else."""
        index = _flat(e.a.indices) if isinstance(e.a, BufferLoad) else None
        if not isinstance(index, Ramp) or not is_const(index.stride, 1) or self.guard_lanes > 1:
            return None
        lanes, size = index.lanes, dt.bits(e.dtype)
        times = len(e.indices) // lanes
        if lanes == 1 or lanes * size != 32 or e.indices != (*range(lanes),) * times:
            return None
        assert isinstance(e.a, BufferLoad)
        pointer = self._guarded(self.address(e.a.buffer, index.base), None)
        word = self.assign(f"load i32, ptr {pointer}, align {size // 8}")
        return self.assign(
            f"bitcast <{times} x i32> {self.splat(word, 'int32', times)} to {llvm_type(e.dtype)}"
        )

    def _near(self, buffer: Buffer, index: Expr, scalar: str) -> str | None:
        """Lanes that stand at known distances close together: one load and a shuffle.

        Only the elements that lanes ask for are touched. None where it does not fit.
        """
        lanes, size = dt.lanes(index.dtype), dt.bytes_of(scalar)
        parts = None if size < 4 or self.guard_lanes > 1 else steps_of(index)
        if parts is None:
            return None
        base, steps = parts
        first = min(steps)
        picked = [s - first for s in steps]
        width = 1 << max(picked).bit_length()
        if not 1 < width <= 2 * lanes:
            return None
        if self.guard is not None:
            self.module.zeros = max(self.module.zeros, width * size)
        pointer = self._guarded(self.address(buffer, base + first), None)
        kind = f"<{width} x {mem_type(scalar)}>"
        if len(set(picked)) == width:
            loaded = self.assign(f"load {kind}, ptr {pointer}, align {size}")
        else:
            mask = ", ".join(f"i1 {int(i in picked)}" for i in range(width))
            loaded = self._masked_load(pointer, f"<{mask}>", width, scalar)
        order = ", ".join(f"i32 {i}" for i in picked)
        return self.assign(
            f"shufflevector {kind} {loaded}, {kind} poison, <{lanes} x i32> <{order}>"
        )

    def _gather(self, buffer: Buffer, index: Expr, scalar: str) -> str:
        """Lanes loaded one by one."""
        result, vector = "poison", llvm_type(dt.vector(scalar, dt.lanes(index.dtype)))
        for i, pointer in enumerate(self._lanes(buffer, index)):
            one = self._element(self._guarded(pointer, i), scalar)
            result = self.assign(
                f"insertelement {vector} {result}, {llvm_type(scalar)} {one}, i64 {i}"
            )
        return result

    def _lanes(self, buffer: Buffer, index: Expr) -> Iterator[str]:
        """The pointer of each lane of an index, computed when it is asked for."""
        lanes = dt.lanes(index.dtype)
        if isinstance(index, Ramp):
            yield from (self.address(buffer, index.base + index.stride * i) for i in range(lanes))
            return
        vector, start = self.value(index), self.names[buffer]
        for i in range(lanes):
            at = self.assign(f"extractelement <{lanes} x i64> {vector}, i64 {i}")
            yield self.moved(mem_type(buffer.type), start, at)

    def store(self, s: BufferStore) -> None:
        """A store, of the lanes where the mask in force holds."""
        mask = self.mask
        index, scalar = _flat(s.indices), s.buffer.type
        value = self.value(s.value)
        lanes = max(dt.lanes(s.value.dtype), dt.lanes(index.dtype))
        if dt.lanes(s.value.dtype) < lanes:
            value = self.splat(value, scalar, lanes)
        kind = f"<{lanes} x {mem_type(scalar)}>" if lanes > 1 else mem_type(scalar)
        if scalar == "bool":
            bits = llvm_type(dt.vector("bool", lanes))
            value = self.assign(f"zext {bits} {value} to {kind}")
        if lanes == 1:
            self._scalar_store(s.buffer, index, value, kind)
        elif isinstance(index, Ramp) and is_const(index.stride, 1):
            pointer = self.address(s.buffer, index.base)
            if mask is not None and s.buffer.scope == "local":
                # a masked store would keep the buffer out of registers
                old = self.assign(f"load {kind}, ptr {pointer}, align {dt.bytes_of(scalar)}")
                value = self.assign(f"select <{lanes} x i1> {mask}, {kind} {value}, {kind} {old}")
                mask = None
            if mask is None:
                self.line(f"store {kind} {value}, ptr {pointer}, align {dt.bytes_of(scalar)}")
            else:
                self._masked_store(pointer, mask, lanes, scalar, value)
        else:
            self._scatter(s.buffer, index, value, kind, lanes, mask)
        self._forget(s.buffer)

    def _scalar_store(self, buffer: Buffer, index: Expr, value: str, kind: str) -> None:
        """One element; under a mask, where any lane takes part."""
        pointer = self.address(buffer, index)
        if self.mask is None:
            self.line(f"store {kind} {value}, ptr {pointer}")
            return
        with self.where(self._any(self.mask)):
            self.line(f"store {kind} {value}, ptr {pointer}")

    def _scatter(
        self, buffer: Buffer, index: Expr, value: str, kind: str, lanes: int, mask: str | None
    ) -> None:
        """Lanes stored one by one; a masked-out lane rewrites what is there."""
        element = mem_type(buffer.type)
        for i, pointer in enumerate(self._lanes(buffer, index)):
            one = self.assign(f"extractelement {kind} {value}, i64 {i}")
            if mask is None:
                self.line(f"store {element} {one}, ptr {pointer}")
                continue
            with self.where(self.assign(f"extractelement <{lanes} x i1> {mask}, i64 {i}")):
                self.line(f"store {element} {one}, ptr {pointer}")

    def remember(self, key: Loaded) -> None:
        """A loaded value is known from here on, until one of its buffers is written."""
        for buffer in self._buffers_read(key[0]):
            self.scope.readers.setdefault(buffer, []).append(key)

    def _forget(self, buffer: Buffer) -> None:
        """Loaded values of a buffer that was just written are known no longer."""
        for scope in self.scopes:
            for key in scope.readers.pop(buffer, ()):
                scope.loads.pop(key, None)

    def _buffers_read(self, e: Expr) -> frozenset[Buffer]:
        """The buffers that an expression loads from; each node is looked at once a function."""
        known = self.buffers_read
        stack = [e]
        while stack:
            n = stack[-1]
            if n in known:
                stack.pop()
                continue
            inside = n.indices if isinstance(n, BufferLoad) else n.children()
            parts = [c for c in inside if isinstance(c, Expr)]
            if missing := [c for c in parts if c not in known]:
                stack += missing
                continue
            own = frozenset([n.buffer]) if isinstance(n, BufferLoad) else frozenset[Buffer]()
            known[n] = own.union(*[known[c] for c in parts])
        return known[e]


def _counted(first: int, count: int) -> str:
    """The order of a shuffle that takes lanes as they follow one another."""
    return f"<{count} x i32> <{', '.join([f'i32 {first + i}' for i in range(count)])}>"


def _masked(what: str, scalar: str, lanes: int) -> str:
    """The name of the intrinsic that loads or stores some lanes of a vector."""
    element = dt.vector("uint8" if scalar == "bool" else scalar, lanes)
    return f"@llvm.masked.{what}.{mangled(element)}.p0"


def _flat(indices: tuple[Expr, ...]) -> Expr:
    """The one index of an access, counted in 64 bits."""
    if len(indices) != 1:
        if not indices:
            return const(0)
        raise InternalError("a buffer of a flat program has one index")
    (index,) = indices
    if isinstance(index, Ramp):
        base, stride = cast(INDEX, index.base), cast(INDEX, index.stride)
        same = base is index.base and stride is index.stride
        return index if same else Ramp(base, stride, index.lanes)
    return cast(INDEX, index)


def _terms(e: Expr) -> list[Expr]:
    """The summands of an index; a constant factor is spread over a sum."""
    out: list[Expr] = []
    stack = [e]
    while stack:
        n = stack.pop()
        if isinstance(n, Add):
            stack += [n.b, n.a]
        elif isinstance(n, Mul) and isinstance(n.b, IntImm) and isinstance(n.a, Add):
            stack += [n.a.b * n.b, n.a.a * n.b]
        else:
            out.append(n)
    return out


def _is_register(index: Expr) -> bool:
    """Whether an index into a local buffer is known at compile time."""
    return isinstance(index, IntImm) or (isinstance(index, Ramp) and isinstance(index.base, IntImm))
