"""The process of a session in which libraries run: a crash there is an error to who has called.

It answers messages of its server over a pair of sockets, one after another. What cannot be sent
stays here, and gets a number. Of what stays, only what is listed in `_OPEN` can be called.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np

from smelt.contrib.debug_executor import GraphModuleDebug
from smelt.contrib.graph_executor import GraphModule
from smelt.runtime import (
    AotModule,
    LoadError,
    Module,
    NativeExecutable,
    NDArray,
    SmeltError,
    TensorFunction,
    empty,
    load_module,
)
from smelt.runtime.native import Operand, check_cpu, time_entry
from smelt.runtime.vm import VirtualMachine, VMExecutable

from .values import Decoder, Encoder
from .wire import Link, Message, RPCError

_libc = ctypes.CDLL(None)
_libc.dlclose.argtypes = [ctypes.c_void_p]


class Kernel:
    """A candidate of tuning: a library with one entry, gone when nobody needs it.

    entry  its address
    """

    def __init__(self, folder: Path, library: bytearray, features: Sequence[str]) -> None:
        """features: what it needs of the processor. Raises LoadError."""
        check_cpu({"features": features}, "a candidate, ")
        with NamedTemporaryFile(dir=folder, suffix=".so") as file:
            file.write(library)
            file.flush()
            try:
                self._library = ctypes.CDLL(file.name)
                address = ctypes.cast(self._library.smelt_entry, ctypes.c_void_p).value
            except (OSError, AttributeError) as e:
                raise LoadError(f"cannot load a candidate: {e}") from None
        assert address
        self.entry = address

    def __del__(self) -> None:
        if hasattr(self, "entry"):
            _libc.dlclose(self._library._handle)


_EXECUTABLE = ("__call__", "__getitem__", "benchmark", "get_function", "profile", "run",
               "time_evaluator")  # fmt: skip
_GRAPH = ("benchmark", "get_input", "get_input_index", "get_input_info", "get_input_name",
          "get_num_inputs", "get_num_outputs", "get_output", "get_output_index", "get_output_name",
          "load_params", "run", "set_input", "__getitem__", "debug_get_output",
          "debug_get_outputs", "kernel_names")  # fmt: skip
_FACTS = ("name", "inputs", "outputs")
_OPEN: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {
    NativeExecutable: (_EXECUTABLE, _FACTS),
    VMExecutable: (_EXECUTABLE, _FACTS),
    TensorFunction: (("__call__", "time_evaluator", "get_source"), ("name",)),
    Module: (("__call__", "__getitem__", "get_function", "time_evaluator"), ("entry_name",)),
    AotModule: (_GRAPH, ("module",)),
    GraphModule: (_GRAPH, ("module",)),
    GraphModuleDebug: ((*_GRAPH, "get_node_output", "measure", "profile", "run_individual",
                        "run_individual_node"), ("module",)),
    VirtualMachine: (("benchmark", "get_outputs", "invoke", "invoke_stateful", "run", "set_input",
                      "set_one_input", "time_evaluator"), ()),
    NDArray: (("numpy", "copyfrom"), ("shape", "dtype")),
    Kernel: ((), ()),
}  # fmt: skip
"""What may be called from afar, and what may be read."""

MADE: dict[str, Callable[..., Any]] = {
    c.__name__: c for c in (AotModule, GraphModule, GraphModuleDebug, VirtualMachine)
}
"""What is made around a library."""


class Session:
    """The objects of a session, and what is asked of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.objects = folder, dict[int, Any]()
        self._handles: Counter[int] = Counter()
        # numbers of a process that has crashed mean nothing in the next one
        self._next = int.from_bytes(os.urandom(4), "little") << 16

    def hold(self, value: Any) -> dict[str, Any]:
        """A handle of a value: its number, and what may be asked of it."""
        methods, facts = self._open(value)
        found = next((n for n, o in self.objects.items() if o is value), self._next)
        if found == self._next:
            self.objects[found] = value
            self._next += 1
        self._handles[found] += 1
        there = [m for m in methods if hasattr(type(value), m)]
        return {"$": "object", "number": found, "kind": type(value).__name__, "methods": there,
                "facts": list(facts)}  # fmt: skip

    def _open(self, value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        for kind in type(value).__mro__:
            if kind in _OPEN:
                return _OPEN[kind]
        if callable(value):
            return ("__call__",), ()
        raise RPCError(f"a {type(value).__name__} cannot be used from another machine")

    def held(self, handle: Mapping[str, Any]) -> Any:
        """The value of a handle."""
        number = handle.get("number")
        if handle["$"] != "object" or number not in self.objects:
            raise RPCError(f"there is no object {number} in this session")
        return self.objects[number]

    def _given(self, handle: Mapping[str, Any]) -> Any:
        """The value of a handle as an argument: of an array its memory."""
        found = self.held(handle)
        return found.numpy() if isinstance(found, NDArray) else found

    def answer(self, message: Message, data: bytearray) -> tuple[Message, list[Any]]:
        """Do what a message asks for."""
        decoder, encoder = Decoder(data, self._given, plain=True), Encoder(self.hold)
        match message.get("do"):
            case "load":
                found = load_module(self.folder / Path(str(message["path"])).name)
                return {"value": encoder.encode(found)}, []
            case "make":
                args = decoder.decode(message["args"])
                made = MADE[str(message["kind"])](*args)
                return {"value": encoder.encode(made)}, []
            case "call":
                return self._called(message, decoder, encoder)
            case "read":
                found = self.held(message["object"])
                if message["name"] not in self._open(found)[1]:
                    raise RPCError(f"{message['name']} cannot be read from another machine")
                return {"value": encoder.encode(getattr(found, message["name"]))}, encoder.data
            case "array":
                made = empty(tuple(message["shape"]), str(message["dtype"]))
                made.numpy()[...] = 0
                return {"value": self.hold(made)}, []
            case "fill":
                self._array(message["array"])[:] = np.resize(
                    np.frombuffer(data, np.uint8), self._array(message["array"]).size
                )
                return {"value": None}, []
            case "kernel":
                return {"value": self.hold(Kernel(self.folder, data, message["features"]))}, []
            case "time":
                return {"value": self._time(message)}, []
            case "forget":
                self._forget(int(message["number"]))
                return {"value": None}, []
        raise RPCError(f"nobody knows how to do {message.get('do')!r}")

    def _array(self, handle: Mapping[str, Any]) -> np.ndarray:
        """The bytes of an array that stays here."""
        found = self.held(handle)
        if not isinstance(found, NDArray):
            raise RPCError(f"a {type(found).__name__} is no array")
        return found.numpy().reshape(-1).view(np.uint8)

    def _time(self, message: Message) -> float:
        """Seconds of calls of a candidate; an operand is [the array, bytes, stride, copies,
        touched], the last ones as in smelt.h."""
        kernel = self.held(message["kernel"])
        operands = []
        for handle, size, stride, copies, touched in message["operands"]:
            memory = self._array(handle)
            if min(size, stride, copies - 1) < 0 or (copies - 1) * stride + size > memory.size:
                raise RPCError("an operand lies outside of its array")
            operands.append(Operand(memory.ctypes.data, size, stride, copies, touched))
        turn, calls, threads = [int(message[n]) for n in ("turn", "calls", "threads")]
        if not isinstance(kernel, Kernel) or turn < 0 or calls < 1 or threads < 1:
            raise RPCError("a message that asks for nothing: kernel, turn, calls or threads")
        return time_entry(kernel.entry, operands, message["sizes"], turn, calls, threads)

    def _forget(self, number: int) -> None:
        self._handles[number] -= 1
        if self._handles[number] <= 0:
            self.objects.pop(number, None)
            self._handles.pop(number, None)

    def _called(
        self, message: Message, decoder: Decoder, encoder: Encoder
    ) -> tuple[Message, list[Any]]:
        found, name = self.held(message["object"]), str(message["name"])
        if name not in self._open(found)[0]:
            raise RPCError(f"{name} of a {type(found).__name__} cannot be called from afar")
        args, named = decoder.decode(message["args"]), decoder.decode(message["named"])
        result = getattr(found, name)(*args, **named)
        made: Message = {"value": encoder.encode(result)}
        if message.get("writes"):  # functions on tensors have their results among the arguments
            sent = [not (isinstance(m, dict) and m["$"] == "object") for m in message["args"]]
            made["written"] = [encoder.encode(a) if isinstance(a, np.ndarray) and s else None
                               for a, s in zip(args, sent, strict=True)]  # fmt: skip
        return made, encoder.data


def serve(link: Link, folder: Path) -> None:
    """Answer until the server is gone."""
    session = Session(folder)
    with suppress(RPCError):
        while True:
            link.send(*_answered(session, *link.receive()))


def _answered(session: Session, message: Message, data: bytearray) -> tuple[Message, list[Any]]:
    try:
        return session.answer(message, data)
    except SmeltError as e:
        return {"error": str(e), "kind": type(e).__name__}, []
    except Exception as e:  # a mistake in what was sent, or in us: the session goes on
        return {"error": f"{type(e).__name__}: {e}", "kind": "RPCError"}, []


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    with socket.socket(fileno=int(sys.argv[1])) as end:
        os.set_inheritable(end.fileno(), False)
        serve(Link(end, "the server"), Path(sys.argv[2]))
    if os.getppid() != int(sys.argv[3]):  # the server was killed: nobody else removes its folder
        shutil.rmtree(sys.argv[2], ignore_errors=True)
