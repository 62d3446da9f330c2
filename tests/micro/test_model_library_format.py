"""Model Library Format: what is read is what was written, and hostile archives are one error."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt
from smelt import relay
from smelt.micro import (
    CSource,
    CTensor,
    ModelLibraryFormatError,
    NonStaticShapeError,
    UnsupportedInModelLibraryFormatError,
    compile_c,
    export_model_library_format,
    read_model_library_format,
)
from smelt.micro.memory import Block, MemoryReport, Step
from smelt.runtime import ExportError
from tests.models import conv_nets

from .test_c import OPTIONS


@pytest.fixture(scope="module")
def net() -> CSource:
    return compile_c(conv_nets.dscnn(1), "c -mcpu=cortex-m4", name="net", options=OPTIONS)


def classic(name: str = "default") -> Any:
    x = relay.var("x", shape=(1, 8), dtype="float32")
    mod = smelt.IRModule.from_expr(relay.nn.relu(x))
    return relay.build(mod, "c -mcpu=cortex-m4", mod_name=name)


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]


def pack(path: Path, files: dict[str, bytes], **changes: dict[str, Any]) -> Path:
    """An archive; changes: attributes of members' headers, by name."""
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            for attribute, value in changes.get(name, {}).items():
                setattr(entry, attribute, value)
            tar.addfile(entry, io.BytesIO(data))
    return path


def test_what_is_read_is_what_was_written(net: CSource, tmp_path: Path) -> None:
    path = export_model_library_format(net, tmp_path / "model.tar")
    assert read_model_library_format(path) == net
    found = members(path)
    assert found["codegen/host/src/net.c"].decode() == net.source
    metadata = json.loads(found["metadata.json"])
    assert metadata["version"] == 7
    one = metadata["modules"]["net"]
    main = one["memory"]["functions"]["main"][0]
    assert main["workspace_size_bytes"] == net.workspace_bytes
    assert main["io_size_bytes"] == 490 * 4 + 12 * 4
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", one["export_datetime"])
    assert (one["style"], one["executors"]) == ("full-model", ["aot"])


def test_several_models(net: CSource, tmp_path: Path) -> None:
    first, second = classic(), classic("other")
    path = export_model_library_format([net, first, second], tmp_path / "models.tar")
    assert read_model_library_format(path, "net") == net
    assert read_model_library_format(path, "default") == first.code
    assert read_model_library_format(path, "other") == second.code
    assert "nn.relu" in members(path)["src/default.relay"].decode()
    with pytest.raises(ModelLibraryFormatError, match="it has 3 models; name one: default, net, "):
        read_model_library_format(path)
    with pytest.raises(ModelLibraryFormatError, match="no model 'ne'; nearest: net; models: "):
        read_model_library_format(path, "ne")
    with pytest.raises(UnsupportedInModelLibraryFormatError, match="two models are called net"):
        export_model_library_format([net, net], tmp_path / "twice.tar")
    assert not (tmp_path / "twice.tar").exists()


def test_archives_can_be_the_same(
    net: CSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    paths = [export_model_library_format(net, tmp_path / f"{n}.tar") for n in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert b"2023-11-14 22:13:20Z" in paths[0].read_bytes()


def test_what_is_refused(tmp_path: Path) -> None:
    x = relay.var("x", shape=(1, 8), dtype="float32")
    here = relay.build(smelt.IRModule.from_expr(relay.nn.relu(x)), "llvm")
    with pytest.raises(UnsupportedInModelLibraryFormatError, match=r"a GraphExecutorFactoryModule "
                       r'is no model as C; legal: .*"c -mcpu=cortex-m4"'):  # fmt: skip
        export_model_library_format(here, tmp_path / "model.tar")
    with pytest.raises(UnsupportedInModelLibraryFormatError, match="there is no model to write"):
        export_model_library_format([], tmp_path / "model.tar")
    with pytest.raises(ExportError, match=r"\.zip files cannot be written; legal: model\.tar"):
        export_model_library_format(classic(), tmp_path / "model.zip")
    n = relay.var("x", shape=(relay.Any(), 8), dtype="float32")
    with pytest.raises(NonStaticShapeError, match="sizes that are numbers"):
        compile_c(smelt.IRModule.from_expr(relay.nn.relu(n)), options=OPTIONS)
    assert not list(tmp_path.iterdir())


# --------------------------------------------------------------------------------- hostile archives


def _metadata(files: dict[str, bytes], change: Callable[[Any], object]) -> dict[str, bytes]:
    found = json.loads(files["metadata.json"])
    change(found["modules"]["net"]["smelt"])
    return files | {"metadata.json": json.dumps(found).encode()}


def _set(**values: Any) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda files: _metadata(files, lambda m: m.update(values))


DAMAGE: dict[str, tuple[Callable[[dict[str, bytes]], dict[str, bytes]], str]] = {
    "leaves": (lambda f: {**f, "../../evil.c": b""}, r"it holds '\.\./\.\./evil\.c', which is no"),
    "absolute": (lambda f: {**f, "/tmp/evil.c": b""}, "it holds '.*evil.c', which is no"),
    "other": (lambda f: {**f, "setup.py": b""}, "it holds 'setup.py', which is no file"),
    "no_metadata": (lambda f: {k: v for k, v in f.items() if k != "metadata.json"},
                    "damaged: metadata.json is missing"),
    "no_source": (lambda f: {k: v for k, v in f.items() if not k.endswith(".c")},
                  r"damaged: codegen/host/src/net\.c is missing"),
    "no_json": (lambda f: {**f, "metadata.json": b"{"}, "it is damaged: Expecting"),
    "a_list": (lambda f: {**f, "metadata.json": b"[]"}, "it is damaged"),
    "nested": (lambda f: {**f, "metadata.json": b"[" * 100_000}, "it is damaged"),
    "version": (lambda f: {**f, "metadata.json": b'{"version": 6, "modules": {}}'},
                "of version 6; smelt reads version 7"),
    "foreign": (lambda f: {**f, "metadata.json": b'{"version": 7, "modules": {"m": {}}}'},
                "smelt did not write it"),
    "newer": (_set(version=1), "another smelt wrote it: 1; legal: 2"),
    "name": (_set(name="a/../../b"), r"codegen/host/src/a/\.\./\.\./b\.c is missing"),
    "text": (_set(workspace_bytes="many"), r"model\.workspace_bytes is 'many'"),
    "true": (_set(workspace_bytes=True), r"model\.workspace_bytes is 'True'"),
    "sizes": (_set(workspace_bytes=4), "and the plan of its memory .* differ"),
    "dtype": (_set(inputs=[{"name": "x", "dtype": "int99", "shape": [1]}]), "damaged: .*int99"),
    "code": (_set(kernels=["f(); evil"]), "'f.*evil' is no name for C"),
    "fields": (_set(extra=1), "model has not the fields that it should: extra"),
    "steps": (_set(kernels=[]), "differ"),
    "negative": (_set(inputs=[{"name": "x", "dtype": "int8", "shape": [-1]}]), "is no tensor"),
    "not_text": (lambda f: {**f, "codegen/host/src/net.c": b"\xff\xfe"},
                 r"damaged: codegen/host/src/net\.c is not what was written"),
    "edited": (lambda f: {**f, "codegen/host/include/net.h": b"int x;"},
               r"include/net\.h is not what was written"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage(name: str, net: CSource, tmp_path: Path) -> None:
    good = members(export_model_library_format(net, tmp_path / "good.tar"))
    change, said = DAMAGE[name]
    path = pack(tmp_path / "bad.tar", change(good))
    with pytest.raises(ModelLibraryFormatError, match=r"bad\.tar: ") as e:
        read_model_library_format(path)
    assert re.search(said, str(e.value)), e.value
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.tar", "good.tar"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE,
                                  tarfile.CHRTYPE, tarfile.FIFOTYPE])  # fmt: skip
def test_only_plain_files(kind: bytes, net: CSource, tmp_path: Path) -> None:
    good = members(export_model_library_format(net, tmp_path / "good.tar"))
    name = "codegen/host/src/net.c"
    path = pack(tmp_path / "bad.tar", {**good, name: b""},
                **{name: {"type": kind, "linkname": "/etc/passwd"}})  # fmt: skip
    with pytest.raises(ModelLibraryFormatError, match=r"holds 'codegen/host/src/net\.c', which"):
        read_model_library_format(path)


def test_no_member_comes_twice(net: CSource, tmp_path: Path) -> None:
    path = export_model_library_format(net, tmp_path / "good.tar")
    with tarfile.open(path, "a") as tar:
        tar.addfile(tarfile.TarInfo("metadata.json"), io.BytesIO())
    with pytest.raises(ModelLibraryFormatError, match=r"holds 'metadata\.json', which is no file"):
        read_model_library_format(path)


@given(cut=st.floats(0, 0.999), flip=st.integers(0, 255))
def test_truncated_and_flipped(
    cut: float, flip: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One error, or the model as it was."""
    folder = tmp_path_factory.mktemp("mlf")
    small = _sample(3, 2)
    data = export_model_library_format(small, folder / "m.tar").read_bytes()
    at = int(cut * len(data))
    for bad in (data[:at], data[:at] + bytes([flip]) + data[at + 1 :]):
        (folder / "bad.tar").write_bytes(bad)
        try:
            found = read_model_library_format(folder / "bad.tar")
        except ModelLibraryFormatError:
            continue
        assert found == small


def _sample(extent: int, steps: int) -> CSource:
    size = extent * 4
    report = MemoryReport("m", tuple([Step(f"k{n}", n, 0) for n in range(steps)]),
                          (Block("b", 0, size, 0, 1),), size, size, 7, size, 0)  # fmt: skip
    return CSource("m", "int x; /* \u00e9 */\n", "#pragma once\n",
                   (CTensor("x", "float32", (extent,)),), (), size, 7,
                   tuple([f"m_k{n}" for n in range(steps)]), report)  # fmt: skip


@given(extent=st.integers(0, 1 << 40), steps=st.integers(0, 5), name=st.from_regex(r"[a-z]\w{0,30}",
       fullmatch=True).filter(str.isascii))  # fmt: skip
def test_any_model(
    extent: int, steps: int, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = replace(_sample(extent, steps), name=name)
    path = export_model_library_format(model, tmp_path_factory.mktemp("mlf") / "m.tar")
    assert read_model_library_format(path) == model


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ModelLibraryFormatError, match=r"cannot read .*No such file"):
        read_model_library_format(tmp_path / "none.tar")
    (tmp_path / "text.tar").write_text("hello\n" * 200)
    with pytest.raises(ModelLibraryFormatError, match="it is no whole tar"):
        read_model_library_format(tmp_path / "text.tar")
    with pytest.raises(ModelLibraryFormatError, match=r"cannot read .*Is a directory"):
        read_model_library_format(tmp_path)
