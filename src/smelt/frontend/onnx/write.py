"""Graph programs as ONNX models.

model = to_onnx(mod, opset=21)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from smelt.ir.errors import CompileError, Unsupported
from smelt.ir.expr import Expr, IntImm
from smelt.ir.module import IRModule
from smelt.ir.node import postorder
from smelt.ir.tables import import_modules
from smelt.ir.types import TensorType
from smelt.relax.graph_op import GraphOp, of_dialect
from smelt.relax.host_ops import VM
from smelt.relax.match_cast import resolve_match_cast
from smelt.relax.nodes import Call, Function, incomplete, tensor_types
from smelt.relax.transform.expand_ops import expanded
from smelt.relax.transform.infer_module import infer_types
from smelt.relax.transform.inline import inline_called
from smelt.relax.transform.normal_form import inline_functions
from smelt.relax.transform.rewriting import functions_of, transform_functions
from smelt.runtime.files import check_target, write_file

from .write_graph import Block, Names, Node, Writer, element_number
from .write_versions import OLDEST, lowered

NEWEST = onnx.defs.onnx_opset_version()
APART = 2**31 - 2**20
"""Bytes of constants from which on they lie in a file of their own: a message holds less than
2 GiB."""
ENDING = ".data"

import_modules(__package__ or "", [str(Path(__file__).parent)], "write_")  # they enter themselves


def to_onnx(mod: IRModule, *, opset: int = 21, name: str | None = None) -> onnx.ModelProto:
    """A module's graph program as a standard ONNX model.

    opset  the operator set that nodes are of
    name   the graph's; None: the module's own name, else "main"

    Raises Unsupported, which lists every operator that has no form in ONNX.
    """
    if not isinstance(opset, int) or not OLDEST <= opset <= NEWEST:
        raise CompileError(f"to_onnx: opset={opset!r}; legal: {OLDEST} to {NEWEST}")
    f = _entry(mod)
    w = Writer(opset, f.body)
    names = Names([p.name for p in f.params], _result_names(f))
    sizes = _size_names(f, names)
    for p, taken in zip(f.params, names.inputs, strict=True):
        w.made[p] = taken
    w.find_sizes(f.body, f.params)
    found = w.write_all(f.body)
    w.block.results = list(found) if isinstance(found, tuple) else [found]
    _complain(w)
    types = tensor_types(f.body.type)
    _name_values(w, names)
    w.block.nodes = _needed(w.block)
    outputs = _info(zip(names.outputs, types, strict=True), sizes)
    inputs = _info([(n, t) for n, p in zip(names.inputs, f.params, strict=True)
                    for t in tensor_types(p.type)], sizes)  # fmt: skip
    return _model(w, names, inputs, outputs, name or str(mod.attrs.get("name") or "main"))


def save(
    mod: IRModule, path: str | os.PathLike[str], *, opset: int = 21, name: str | None = None
) -> None:
    """A module's graph program as a file: see to_onnx and put."""
    check_target(path, (".onnx",), "model.onnx")
    put(to_onnx(mod, opset=opset, name=name), path)


def put(model: onnx.ModelProto, path: str | os.PathLike[str]) -> None:
    """A model as a file; constants beyond 2 GB lie in PATH.data beside it, the message stays whole.

    What fails leaves the place as it was.
    """
    check_target(path, (".onnx",), "model.onnx")
    tensors = model.graph.initializer
    if sum(len(t.raw_data) for t in tensors) >= APART:
        beside = Path(path).with_name(Path(path).name + ENDING)
        whole, model = model, onnx.ModelProto()
        model.CopyFrom(whole)
        tensors = model.graph.initializer
        write_file(beside, lambda file: _put_apart(tensors, beside.name, file.write))
    write_file(path, lambda file: file.write(model.SerializeToString(deterministic=True)))


def _put_apart(tensors: Any, name: str, write: Callable[[bytes], object]) -> None:
    """The bytes of large constants into a file; the messages say where they stand."""
    at = 0
    for t in tensors:
        if len(t.raw_data) < 1024:
            continue
        gap = -at % 4096
        data = t.raw_data
        write(b"\0" * gap + data)
        t.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", name), ("offset", at + gap), ("length", len(data))):
            t.external_data.add(key=key, value=str(value))
        at += gap + len(data)
        t.ClearField("raw_data")


# ------------------------------------------------------------------------------- the function


def _entry(mod: IRModule) -> Function:
    """The function that the model is of, with all others in it that do not call themselves."""
    found = functions_of(mod)
    name = "main" if "main" in found else next(iter(found), "")
    if not name or (name != "main" and len(found) > 1):
        have = ", ".join(found) or "none"
        raise CompileError(f"to_onnx: the module needs a graph function 'main'; it has: {have}")
    if any(incomplete(e.type) for f in found.values() for e in (*f.params, f.body)):
        mod = infer_types(mod)
    mod = inline_functions(inline_called(resolve_match_cast(mod), [n for n in found if n != name]))
    mod = _in_core(mod)
    f = mod[name]
    assert isinstance(f, Function)
    return f


def _in_core(mod: IRModule) -> IRModule:
    """A module in which calls of a dialect's operators are of the core's."""

    def foreign(node: Any) -> bool:
        op = node.op if isinstance(node, Call) else None
        return isinstance(op, GraphOp) and of_dialect(op) and op.dialect is not VM

    while any(foreign(n) for f in functions_of(mod).values() for n in postorder(f)):
        mod = transform_functions(mod, lambda old, new: expanded(new) if foreign(new) else None)
    return mod


def _result_names(f: Function) -> list[str]:
    """What the results are called."""
    given = list(f.attrs.get("output_names", ()))
    count = len(tensor_types(f.body.type))
    own = [f"output{n}" if count > 1 else "output" for n in range(count)]
    return [n or o for n, o in zip(given, own, strict=True)] if len(given) == count else own


def _size_names(f: Function, names: Names) -> dict[Expr, str]:
    """What the sizes in the types of operands and results are called: every one otherwise."""
    found: dict[Expr, str] = {}
    own = Names()
    for t in [t for p in (*f.params, f.body) for t in tensor_types(p.type)]:
        for e in t.shape:
            if not isinstance(e, IntImm) and e not in found:
                found[e] = own.unique(str(e))
    return found


def _info(
    typed: Iterable[tuple[str, TensorType]], sizes: Mapping[Expr, str]
) -> list[onnx.ValueInfoProto]:
    """Values with their types."""
    return [
        helper.make_tensor_value_info(
            n,
            element_number(t.dtype),
            [e.value if isinstance(e, IntImm) else sizes.get(e) for e in t.shape],
        )
        for n, t in typed
    ]


def _complain(w: Writer) -> None:
    """One error for everything that has no form."""
    if not w.problems:
        return
    count = len(w.problems)
    lines = []
    for (op, why), nodes in w.problems.items():
        shown = ", ".join([repr(n) for n in nodes if n][:5]) + (", ..." if len(nodes) > 5 else "")
        where = f" ({shown})" if shown else ""
        lines.append(f"  {op}: {len(nodes)} node{'s' * (len(nodes) > 1)}{where}: {why}")
    raise Unsupported(
        f"to_onnx: {count} thing{'s' * (count > 1)} without a form in ONNX, operator set "
        f"{w.opset}\n" + "\n".join(lines) + "\n  legal: tensors, operators that ONNX has or that "
        f"are made of such, branches; opset={OLDEST} to {NEWEST}"
    )


# ---------------------------------------------------------------------------------- the model


def _name_values(w: Writer, names: Names) -> None:
    """Results are values of their own, under their names: of a node, and not of two."""
    made = {o for n in w.block.nodes for o in n.outputs}
    last: dict[str, str] = {}
    for k, (r, name) in enumerate(zip(w.block.results, names.outputs, strict=True)):
        if r not in made or r in last:
            w.label = ""
            r = w.block.results[k] = w.emit("Identity", r)
        last[r] = name
    w.final = last


def _needed(block: Block) -> list[Node]:
    """The nodes that results need, in order; those in branches too."""
    wanted = set(block.results)
    kept = []
    for node in reversed(block.nodes):
        if wanted.isdisjoint(node.outputs):
            continue
        for inner in node.attrs.values():
            if isinstance(inner, Block):
                inner.nodes = _needed(inner)
        wanted.update(node.read())
        kept.append(node)
    return kept[::-1]


def _model(
    w: Writer, names: Names, inputs: list[Any], outputs: list[Any], name: str
) -> onnx.ModelProto:
    final = w.final
    read = {n for node in w.block.nodes for n in node.read()}
    constants = {n: a for n, a in w.constants.items() if n in read}
    for n in constants:
        final[n] = names.unique(w.labels[n] or "constant")
    nodes = [p for node in w.block.nodes for p in _protos(node, w, names)]
    read = {n for p in nodes for n in _read(p)}
    tensors = [_tensor(a, final[n]) for n, a in constants.items() if final[n] in read]
    tensors += [_tensor(w.constants[n], final[n]) for n in w.constants
                if n not in constants and final.get(n) in read]  # fmt: skip
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    sets = [helper.make_opsetid("", w.opset)]
    version = helper.find_min_ir_version_for(sets)
    return helper.make_model(graph, opset_imports=sets, ir_version=version, producer_name="smelt")


def _read(p: onnx.NodeProto) -> list[str]:
    """The values that a node needs, those in its branches too."""
    inner = [n for a in p.attribute if a.HasField("g") for n in a.g.node]
    return [*p.input, *[i for n in inner for i in _read(n)]]


def _protos(node: Node, w: Writer, names: Names) -> list[onnx.NodeProto]:
    """A node as a message; of old operator sets it may be several."""
    found = []
    for n in lowered(node, w):
        label = w.node_names.unique(n.label or n.op)
        for k, o in enumerate(n.outputs):
            if o not in w.final:
                w.final[o] = names.unique(_value_name(label, k))
        attrs = {k: _graph(v, w, names) if isinstance(v, Block) else v for k, v in n.attrs.items()}
        for i in n.inputs:
            if i in w.constants and i not in w.final:
                w.final[i] = names.unique("constant")
        given = [w.final.get(i, i) for i in n.inputs]
        proto = helper.make_node(n.op, given, [w.final[o] for o in n.outputs], label)
        proto.attribute.extend([helper.make_attribute(k, v) for k, v in sorted(attrs.items())])
        found.append(proto)
    return found


def _value_name(label: str, k: int) -> str:
    return f"{label}:{k}" if k else label


def _graph(block: Block, w: Writer, names: Names) -> onnx.GraphProto:
    """A branch as a message."""
    nodes = [p for n in block.nodes for p in _protos(n, w, names)]
    results = [w.final[r] for r in block.results]
    sizes = {e: re.sub(r"\W", "_", str(e)) for t in block.types for e in t.shape}
    outputs = _info(zip(results, block.types, strict=True), sizes)
    return helper.make_graph(nodes, names.unique("branch"), [], outputs)


def _tensor(data: np.ndarray, name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(data) if data.ndim else data, name)
