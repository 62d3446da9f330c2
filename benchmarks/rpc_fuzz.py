"""Messages that mean nothing, for servers and trackers of RPC: what crashes, what hangs."""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.rpc_servers import SECRET
from smelt.codegen.llvm import object_code, resolve
from smelt.codegen.llvm_text import entry_text
from smelt.rpc import RPCError, wire
from smelt.runtime.linking import link_kernel
from smelt.target import Target

_HEAD = struct.Struct("<4sIQ")
_DO = ("load", "make", "call", "read", "forget", "download", "remove", "list", "upload", "array",
       "fill", "kernel", "time", "none", "here", "put", "busy", "summary", None, 7)  # fmt: skip
_FIELDS = ("path", "object", "name", "args", "named", "kind", "number", "start", "count", "more",
           "writes", "limit", "key", "port", "match", "about", "address", "priority", "dtype",
           "shape", "array", "features", "kernel", "operands", "sizes", "turn",
           "threads")  # fmt: skip
_NAMES = ("__call__", "__getitem__", "get_function", "benchmark", "time_evaluator", "name",
          "inputs", "outputs", "module", "entry_name", "set_input", "run", "invoke",
          "invoke_stateful", "get_input", "get_output", "get_outputs", "get_input_info",
          "get_input_name", "get_input_index", "get_num_inputs", "get_output_name",
          "get_output_index", "profile", "default", "x", "a", "main", "net.so", "loop.so",
          "add.so", "../up", "", "GraphModule", "AotModule", "VirtualMachine", "y\0z",
          "\ud800", "\udc80", "\u00e9\u4e2d\U0001f600", "repeat", "func_name", "device",
          "min_repeat_ms", "end_to_end")  # fmt: skip
_NUMBERS = (0, 1, 2, 3, -1, 1 << 63, -(1 << 63), 1 << 70, 0.5, -0.0, 1e-9, float("nan"),
            float("-inf"), True, False)  # fmt: skip
_DTYPES = ("float32", "float64", "int64", "bool", "bfloat16", "float16", "int4", "object", ">f4")


def _value(rng: random.Random, known: list[dict[str, Any]], depth: int = 0) -> Any:
    """A value as messages have them, or nearly so."""
    kind = rng.randrange(11 if depth < 3 else 5)
    match kind:
        case 0:
            return rng.choice(_NUMBERS)
        case 1:
            return rng.choice(_NAMES)
        case 2:
            return rng.choice([None, [], {}, "x" * rng.randrange(400)])
        case 3 if known:
            return {"$": "object", "number": rng.choice(known)["number"]}
        case 3 | 4:
            shape = rng.choice([[2, 4], [2, 4], [8], [3, 4], [], [0], [2, -4], [1 << 40, 1 << 40],
                                [1] * 20, ["n"], 3])  # fmt: skip
            dtype = rng.choice(_DTYPES[: rng.choice([1, 9])])
            return {"$": "array", "dtype": dtype, "shape": shape}
        case 5:
            return {"$": "device", "type": rng.choice([1, 1, 2]), "number": rng.choice([0, 0, 1])}
        case 6:
            return {"$": rng.choice(["tuple", "results", "record", "bytes", "object", 5]),
                    "items": _value(rng, known, depth + 1), "number": rng.choice(_NUMBERS),
                    "count": rng.choice(_NUMBERS), "name": "TensorInfo", "fields": {}}  # fmt: skip
        case 7 | 8:
            names = rng.sample(_NAMES, rng.randrange(3))
            return {"$": "dict", "items": {n: _value(rng, known, depth + 1) for n in names}}
        case _:
            return [_value(rng, known, depth + 1) for _ in range(rng.randrange(4))]


def _message(rng: random.Random, known: list[dict[str, Any]]) -> dict[str, Any]:
    """What one could ask, with wrong things in it."""
    made: dict[str, Any] = {"do": rng.choice(_DO)}
    if rng.random() < 0.6 and known:
        thing = rng.choice(known)
        made = {"do": "call", "object": {"$": "object", "number": thing["number"]},
                "name": rng.choice([*thing["methods"], *thing["facts"], rng.choice(_NAMES)]),
                "args": [_value(rng, known) for _ in range(rng.randrange(4))],
                "named": {"$": "dict", "items": {}}}  # fmt: skip
        if made["name"] in thing["facts"]:
            made["do"] = "read"
    elif rng.random() < 0.3 and known:
        made = _timed(rng, [{"$": "object", "number": k["number"]} for k in known])
    for name in _FIELDS:
        if rng.random() < (0.05 if len(made) > 1 else 0.5):
            made[name] = _value(rng, known)
    return made


def _timed(rng: random.Random, handles: list[dict[str, Any]]) -> dict[str, Any]:
    """What is asked of arrays and candidates; both are the last ones of begin_session."""
    few = (0, 1, 2, 8, 32, 33, -1, 1 << 62, 0.5)
    array, kernel = [rng.choice([h, h, rng.choice(handles)]) for h in handles[6:8] or handles[:2]]
    operands = [[array, *rng.choices(few, k=4)] for _ in range(rng.randrange(4))]
    return rng.choice([
        {"do": "array", "dtype": rng.choice(_DTYPES), "shape": rng.choice([[2, 4], [], [0], [-1]])},
        {"do": "fill", "array": array},
        {"do": "kernel", "features": rng.choice([[], ["sse2"], ["none"], 7])},
        {"do": "time", "kernel": kernel, "operands": operands, "sizes": rng.choices(few, k=2),
         "turn": rng.choice(few), "calls": rng.choice([1, 2, 3, 0, -1, 0.5]),
         "threads": rng.choice(few)},
    ])  # fmt: skip


def _frame(rng: random.Random, known: list[dict[str, Any]], broken: bool, data: bool) -> bytes:
    """A message as bytes. broken: it may be none, or end elsewhere than its head says; data: it may
    have some."""
    text = json.dumps(_message(rng, known)).encode()
    rest = rng.randbytes(rng.choice([0, 0, 8, 32, 32, 33, 96, 200])) if data else b""
    if not broken:
        return _HEAD.pack(b"SMRP", len(text), len(rest)) + text + rest
    cut = bytearray(text)
    for _ in range(rng.randrange(3)):
        cut[rng.randrange(len(cut))] = rng.randrange(256)
    head = _HEAD.pack(rng.choice([b"SMRP", b"SMRP", rng.randbytes(4)]),
                      rng.choice([len(cut), len(cut), len(cut) + 5, 1 << 20, 1 << 31, 0]),
                      rng.choice([len(rest), len(rest), 1 << 33, 1 << 60, 7]))  # fmt: skip
    return rng.choice([head + cut + rest, head + cut + rest, head, head[:7],
                       rng.randbytes(rng.randrange(64))])  # fmt: skip


def _stranger(rng: random.Random) -> bytes:
    """What somebody says who does not know the token."""
    text = json.dumps({
        "version": rng.choice([1, 1, 1, 0, "1", None, 1.0, 1 << 70]),
        "number": rng.choice(["1", "x" * rng.randrange(300), 5, None, "\ud800"]),
        "proof": rng.choice(["x", "0" * 64, "0" * 65, "\u00e9" * 64, None]),
        "match": rng.choice(_NAMES), "limit": rng.choice(_NUMBERS),
    }).encode()  # fmt: skip
    if rng.random() < 0.5:
        return _HEAD.pack(b"SMRP", len(text), 0) + text
    return _frame(rng, [], rng.random() < 0.5, True)


# ------------------------------------------------------------------------------------------ sending


@dataclass
class Found:
    """What came of it.

    lost   connections that ended though nothing was wrong with the frames
    hangs  those in which no answer has come within PATIENCE
    """

    frames: int = 0
    connections: int = 0
    lost: int = 0
    hangs: int = 0
    crashes: list[str] = field(default_factory=list)


PATIENCE = 60.0
_CRASH = "the process of this session"


def send_strangers(port: int, frames: int, seed: int, found: Found) -> None:
    """Connections of somebody who does not know the token, a frame each."""
    rng = random.Random(seed)
    for _ in range(frames):
        with socket.create_connection(("127.0.0.1", port)) as end, suppress(OSError):
            end.sendall(_stranger(rng))
            if rng.random() < 0.3:
                end.shutdown(socket.SHUT_WR)
                end.settimeout(PATIENCE)
                while end.recv(4096):
                    pass
        found.frames += 1
        found.connections += 1


def send_known(
    role: str, port: int, frames: int, seed: int, found: Found,
    begin: Callable[[wire.Link], list[dict[str, Any]]], broken: float,
) -> None:  # fmt: skip
    """Messages of somebody who knows the token.

    begin   what a connection begins with; it gives the objects that there are
    broken  the share of messages that end their connection
    """
    rng, done = random.Random(seed), 0
    while done < frames:
        link = wire.call("127.0.0.1", port, role, SECRET)
        link.end.settimeout(PATIENCE)
        found.connections += 1
        known, last = begin(link), False
        try:
            while done < frames and not last:
                done, last = done + 1, rng.random() < broken
                link.end.sendall(_frame(rng, known, last, role == "server"))
                if not last:
                    _note(link.receive()[0], known, found)
        except (RPCError, OSError) as e:
            found.lost += 1
            found.hangs += "does not answer" in str(e)
        finally:
            link.close()
    found.frames += done


def _note(answer: dict[str, Any], known: list[dict[str, Any]], found: Found) -> None:
    if _CRASH in str(answer.get("error")):
        found.crashes.append(str(answer["error"]))
    value = answer.get("value")
    if isinstance(value, dict) and value.get("$") == "object" and len(known) < 40:
        known.append(value)


def begin_session(libraries: Path) -> Callable[[wire.Link], list[dict[str, Any]]]:
    """Sends net.so, loop.so and add.so of a folder, loads them, and makes executors of them; an
    array of 32 bytes, and a candidate of tuning that does nothing."""
    text = entry_text("nothing", []) + "define i32 @nothing(ptr %host) { ret i32 0 }"
    kernel = link_kernel(object_code(resolve(Target("llvm")), text, "nothing"))

    def begin(link: wire.Link) -> list[dict[str, Any]]:
        link.receive()
        known = []
        for name in ("net.so", "loop.so", "add.so"):
            link.send({"do": "upload", "path": name}, [(libraries / name).read_bytes()])
            link.receive()
            link.send({"do": "load", "path": name})
            known.append(link.receive()[0]["value"])
        for kind, number in (("GraphModule", 0), ("AotModule", 0), ("VirtualMachine", 1)):
            handle = {"$": "object", "number": known[number]["number"]}
            link.send({"do": "make", "kind": kind, "args": [handle]})
            known.append(link.receive()[0]["value"])
        for message, data in (
            ({"do": "array", "dtype": "float32", "shape": [2, 4]}, b""),
            ({"do": "kernel", "features": []}, kernel),
        ):
            link.send(message, [data])
            known.append(link.receive()[0]["value"])
        return known

    return begin
