"""Exporting: .tar files, compilers of the user's choice."""

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import te
from smelt.contrib import cc, ndk, tar, utils
from smelt.runtime import ExportError, LoadError, load_module
from smelt.runtime.compilers import find_compiler

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def want(lib: Any, image: Array) -> Array:
    result: Array = lib.lib(image).numpy()
    return result


def test_objects_in_a_tar_are_linked_where_they_are_loaded(
    lib: Any, image: Array, want: Array, tmp_path: Path
) -> None:
    path = tmp_path / "net.tar"
    lib.export_library(path)
    with tarfile.open(path) as made:
        names = made.getnames()
    assert {"metadata.json", "weights.bin", "model0.o"} <= set(names)
    assert not [n for n in names if n.endswith(".so")]
    loaded = load_module(path)
    assert np.array_equal(loaded(image).numpy(), want)
    assert [t.name for t in loaded.inputs] == ["input"]
    os.rename(path, tmp_path / "net.bin")
    assert np.array_equal(load_module(tmp_path / "net.bin", "tar")(image).numpy(), want)


def test_a_tar_may_be_linked_already(
    lib: Any, image: Array, want: Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.tar"
    lib.export_library(path, cc=find_compiler(None))
    with tarfile.open(path) as made:
        assert made.getnames() == ["model.so"]
    monkeypatch.setenv("CC", "/no/compiler")
    assert np.array_equal(load_module(path)(image).numpy(), want)
    lib.export_library(path)
    with pytest.raises(LoadError) as caught:
        load_module(path)
    assert str(caught.value) == (
        f"cannot load {path}: a .tar is linked where it is loaded: the C compiler cannot be run: "
        "/no/compiler: No such file or directory\n"
        "  export_library(..., cc=...) links it before"
    )


def test_a_linker_of_the_users_own(lib: Any, image: Array, want: Array, tmp_path: Path) -> None:
    seen = []

    def link(output: str, files: list[str], options: list[str]) -> None:
        seen.append((Path(output).suffix, {Path(f).suffix for f in files}))
        cc.create_shared(output, files, options)

    lib.export_library(tmp_path / "a.so", link)
    lib.export_library(tmp_path / "b.so", fcompile=cc.cross_compiler(" ".join(find_compiler(None))))
    lib.export_library(tmp_path / "c.tar", tar.tar)
    assert seen == [(".so", {".c", ".o"})]
    for name in ("a.so", "b.so", "c.tar"):
        assert np.array_equal(load_module(tmp_path / name)(image).numpy(), want)
    tar.untar(str(tmp_path / "c.tar"), str(tmp_path / "out"))
    assert (tmp_path / "out" / "metadata.json").exists()


def test_a_tensor_program_in_a_tar(tmp_path: Path) -> None:
    a = te.placeholder((8,), "float32", "a")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="b")
    module = smelt.build(te.create_schedule(b.op), [a, b])
    module.export_library(tmp_path / "f.tar")
    loaded = load_module(tmp_path / "f.tar")
    out = np.zeros(8, "float32")
    loaded(np.arange(8, dtype="float32"), out)
    assert out.tolist() == list(range(1, 9))


def damaged(path: Path, change: Any) -> Path:
    """A copy of an archive with its files changed."""
    folder = path.parent / "inside"
    with tarfile.open(path) as given:
        given.extractall(folder, filter="data")
    change(folder)
    made = path.with_name("damaged.tar")
    tar.tar(str(made), [str(f) for f in sorted(folder.iterdir())])
    return made


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda f: (f / "metadata.json").unlink(), "its metadata is missing or damaged"),
        (
            lambda f: (f / "metadata.json").write_text("{}"),
            "its metadata is damaged: abi is missing",
        ),
        (lambda f: (f / "metadata.json").write_text("[]"), "its metadata is damaged: it is \\[\\]"),
        (lambda f: (f / "model.c").unlink(), "objects or constants are missing or damaged"),
        (lambda f: (f / "model0.o").unlink(), "objects or constants are missing or damaged"),
        (lambda f: (f / "weights.bin").write_bytes(b""), "objects or constants are missing"),
        (lambda f: (f / "model0.o").write_bytes(b"x"), "the C compiler failed"),
    ],
)
def test_damaged_archives(change: Any, text: str, lib: Any, tmp_path: Path) -> None:
    lib.export_library(tmp_path / "net.tar")
    with pytest.raises(LoadError, match=text):
        load_module(damaged(tmp_path / "net.tar", change))


def test_files_outside_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    with tarfile.open(tmp_path / "m.tar", "w") as made:
        made.add(tmp_path / "x", "../x")
    with pytest.raises(LoadError, match=r"it holds '../x', which is no file of a model"):
        load_module(tmp_path / "m.tar")
    (tmp_path / "n.tar").write_text("no tar")
    with pytest.raises(LoadError, match=r"cannot load .*n.tar: "):
        load_module(tmp_path / "n.tar")
    with pytest.raises(LoadError, match="fmt='zip'; legal: '', 'so', 'tar'"):
        load_module(tmp_path / "m.tar", "zip")


def _member(name: str, content: bytes = b"x", **fields: Any) -> Any:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, io.BytesIO(content)


@pytest.mark.parametrize(
    ("members", "name"),
    [
        ([_member("model0.o"), _member("model0.o")], "model0.o"),
        ([_member("-o")], "-o"),
        ([_member("@args")], "@args"),
        ([_member("evil.c")], "evil.c"),
        ([_member("modelx.o")], "modelx.o"),
        ([_member("sub/model0.o")], "sub/model0.o"),
        ([_member("model.c", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "model.c"),
        ([_member("a.o"), _member("model.c", b"", type=tarfile.LNKTYPE, linkname="a.o")], "a.o"),
        ([_member("model.c", b"", type=tarfile.FIFOTYPE)], "model.c"),
        ([_member("weights.bin", b"1\n0\n1\n".ljust(512, b"\0") + b"x",
                  pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                                              "GNU.sparse.realsize": "1000000000000"})],
         "weights.bin"),
    ],
)  # fmt: skip
def test_only_plain_members_of_known_names(members: Any, name: str, tmp_path: Path) -> None:
    """No name becomes a path or an option of the linker, and nothing grows while it is read."""
    with tarfile.open(tmp_path / "m.tar", "w", format=tarfile.PAX_FORMAT) as made:
        for info, content in members:
            content.seek(0)
            made.addfile(info, content)
    with pytest.raises(LoadError) as caught:
        load_module(tmp_path / "m.tar")
    assert f"it holds {name!r}, which is no file of a model" in str(caught.value)


def test_compressed_archives_are_refused(lib: Any, tmp_path: Path) -> None:
    lib.export_library(tmp_path / "net.tar")
    (tmp_path / "z.tar").write_bytes(gzip.compress((tmp_path / "net.tar").read_bytes()))
    with pytest.raises(LoadError, match=r"cannot load .*z.tar: "):
        load_module(tmp_path / "z.tar")


def test_metadata_of_an_archive_are_not_compiled(lib: Any, tmp_path: Path) -> None:
    """Other metadata than those that model.c was made with are refused, whatever they say."""
    lib.export_library(tmp_path / "net.tar")

    def rename(folder: Path) -> None:
        file = folder / "metadata.json"
        file.write_text(file.read_text().replace('"name": "net"', '"name": "nut"'))

    with pytest.raises(LoadError, match="its code and its constants do not belong together"):
        load_module(damaged(tmp_path / "net.tar", rename))


def test_what_cannot_be_exported(lib: Any, tmp_path: Path) -> None:
    for name in ("m.zip", "m.o", "m.json"):
        with pytest.raises(ExportError, match=r"files cannot be written; legal: a shared library"):
            lib.export_library(tmp_path / name)
    with pytest.raises(ExportError, match="give cc or fcompile to export_library, not both"):
        lib.export_library(tmp_path / "m.so", tar.tar, cc="cc")
    with pytest.raises(ExportError, match=r"wrote no file"):
        lib.export_library(tmp_path / "m.tar", lambda output, files: None)
    with pytest.raises(ExportError, match=r"the folder .*absent does not exist"):
        lib.export_library(tmp_path / "absent" / "m.tar")
    lib.export_library(tmp_path / "m.tar")
    with pytest.raises(ExportError, match="it has no object files to export"):
        load_module(tmp_path / "m.tar").export_library(tmp_path / "n.tar")


def test_compilers(tmp_path: Path) -> None:
    assert cc.get_cc()
    (tmp_path / "f.c").write_text("int f(void) { return 3; }")
    cc.create_shared(str(tmp_path / "f.so"), str(tmp_path / "f.c"), ["-O1", "-lm"])
    assert (tmp_path / "f.so").exists()
    (tmp_path / "g.c").write_text("int f(void) { return x; }")
    with pytest.raises(ExportError, match=r"the C compiler failed: .* -shared -fPIC\n(.|\n)*x"):
        cc.create_shared(str(tmp_path / "g.so"), str(tmp_path / "g.c"))
    with pytest.raises(ExportError, match="the C compiler cannot be run: /no/cc: No such file"):
        cc.cross_compiler("/no/cc")("x.so", ["x.c"])
    with pytest.raises(ExportError, match="output_format='o'; legal: 'so', 'tar'"):
        cc.cross_compiler("cc", output_format="o")


def test_the_android_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f.c").write_text("int f(void) { return 3; }")
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    with pytest.raises(ExportError, match="TVM_NDK_CC does not name the compiler"):
        ndk.create_shared(str(tmp_path / "f.so"), [str(tmp_path / "f.c")])
    monkeypatch.setenv("TVM_NDK_CC", " ".join(find_compiler(None)))
    ndk.create_shared(str(tmp_path / "f.so"), [str(tmp_path / "f.c")])
    assert (tmp_path / "f.so").exists()


def test_temporary_folders(tmp_path: Path) -> None:
    temp = utils.tempdir()
    path = temp.relpath("model.so")
    Path(path).write_text("x")
    assert temp.listdir() == ["model.so"]
    assert temp / "model.so" == path == os.path.join(temp.path, "model.so")
    temp.remove()
    assert not os.path.exists(temp.temp_dir)
    with utils.tempdir(str(tmp_path / "mine")) as kept:
        Path(kept.relpath("a")).write_text("a")
    assert (tmp_path / "mine" / "a").exists()


def test_the_library_of_an_archive_stands_alone(lib: Any, tmp_path: Path) -> None:
    """Loading is the only step that needs the archive."""
    path = tmp_path / "net.tar"
    lib.export_library(path)
    loaded = load_module(path)
    path.unlink()
    x = np.ones((1, 3, 32, 32), "float32")
    assert np.array_equal(loaded(x).numpy(), lib.lib(x).numpy())
