"""Python wheels for x86-64 and ARM: what scripts/wheels.py builds is whole, honest, and runs.

`make setup-edge` installs zig, an emulator and a Python for ARM; without them tests are skipped.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import smelt
from tests.devices.crossed import CROSS

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "wheels.py"
ZIG = [sys.executable, "-m", "ziglang", "cc", "-target"]
LIBRARY = "smelt/runtime/libsmelt_runtime.so"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
ARM = CACHE / "smelt-edge" / "arm64"
"""Where scripts/arm64_python.sh puts a Python."""
OPTIONS = smelt.Options(threads=2, workers=0, cache_dir="")
PACKAGES = {"ziglang": "ziglang", "elftools": "pyelftools"}
MISSING = [p for module, p in PACKAGES.items() if importlib.util.find_spec(module) is None]
MODEL = """<ir_version: 8, opset_import: ["": 17]>
net (float[rows, 4] x) => (float[rows, 3] y)
<float[4, 3] w = {0.5, 0.0, 0.1, 0.4, 0.1, 0.2, 0.3, 0.2, 0.3, 0.2, 0.3, 0.4}> {
    a = MatMul(x, w)
    y = Softmax(a)
}"""
COMPILED = f"""
import sys
import numpy, onnx.parser, smelt
print(smelt.__file__)
model = onnx.parser.parse_model('''{MODEL}''')
net = smelt.compile(model, options=smelt.Options(threads=1, workers=0, cache_dir=""))
numpy.save(sys.argv[2], net(numpy.load(sys.argv[1])).numpy())
"""
LOADED = """
import sys
import numpy, smelt
print(smelt.__file__)
numpy.save(sys.argv[2], smelt.load(sys.argv[3])(numpy.load(sys.argv[1])).numpy())
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(MISSING), reason=f"{' and '.join(MISSING)} missing: pip install 'smelt[wheels]'"
    ),
]


def model() -> onnx.ModelProto:
    """A product of any number of rows."""
    return onnx.parser.parse_model(MODEL)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Wheels by machine."""
    folder = tmp_path_factory.mktemp("wheels") / "dist"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--out", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert told == ["x86_64", "x86_64", "aarch64", "aarch64"]
    made = sorted(folder.iterdir())
    version = smelt.__version__
    assert [w.name for w in made] == [
        f"smelt-{version}-py3-none-manylinux_2_17_{m}.whl" for m in ("aarch64", "x86_64")
    ]
    return {"aarch64": made[0], "x86_64": made[1]}


@pytest.fixture
def rows(tmp_path: Path) -> np.ndarray:
    """Three rows, in x.npy, too."""
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    return x


# ---- what they are --------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_wheel_has_every_file(machine: str, wheels: dict[str, Path]) -> None:
    ours = [p for p in (ROOT / "src" / "smelt").rglob("*") if p.is_file()]
    made = ("__pycache__", "native_src")
    files = {
        p.relative_to(ROOT / "src").as_posix()
        for p in ours
        if p.suffix != ".so" and not any(part in made for part in p.parts)
    }
    native = [p for p in (ROOT / "native").rglob("*") if p.suffix in (".c", ".h", ".hpp", ".mjs")]
    native += (ROOT / "native").rglob("*.mts")
    files |= {f"smelt/runtime/native_src/{p.relative_to(ROOT / 'native')}" for p in native}
    with zipfile.ZipFile(wheels[machine]) as archive:
        about = f"smelt-{smelt.__version__}.dist-info"
        found = {n for n in archive.namelist() if not n.startswith(about)}
        said = archive.read(f"{about}/WHEEL").decode()
    assert found == files | {LIBRARY}
    assert f"Tag: py3-none-manylinux_2_17_{machine}\n" in said
    assert "Root-Is-Purelib: false\n" in said


def refused(wheel: Path, name: str, library: Path | None = None) -> str:
    """What is said of a wheel under another name, or with another library."""
    other = wheel.with_name(name)
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(other, "w") as made:
        for n in given.namelist():
            made.writestr(n, library.read_bytes() if library and n == LIBRARY else given.read(n))
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check", other], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout
    return done.stderr


def compiled(file: Path, code: str, *flags: str) -> Path:
    """A library in C, for glibc 2.34."""
    source = file.with_suffix(".c")
    source.write_text(code)
    command = [*ZIG, "x86_64-linux-gnu.2.34", "-shared", "-fPIC", str(source), *flags]
    subprocess.run([*command, "-o", str(file)], check=True)
    return file


def test_a_wheel_that_is_not_what_its_name_says_is_refused(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    good = Path(shutil.copy(wheels["x86_64"], tmp_path))
    name = "smelt-0.1-py3-none-manylinux_{}.whl"
    newer = compiled(
        tmp_path / "newer.so",
        "#include <dlfcn.h>\nvoid *one(void) { return dlopen(0, RTLD_NOW); }\n",
    )
    assert "needs GLIBC_2.34 of libc.so.6, but its wheel is for glibc 2.17 and newer" in refused(
        good, name.format("2_17_x86_64"), newer
    )
    code = "void *one(void);\nvoid *two(void) { return one(); }\n"
    more = compiled(tmp_path / "more.so", code, f"-L{tmp_path}", "-l:newer.so")
    assert "newer.so, which not every machine has" in refused(
        good, name.format("2_34_x86_64"), more
    )
    (tmp_path / "text").write_text("no library")
    said = refused(good, name.format("2_17_x86_64"), tmp_path / "text")
    assert "is no ELF library" in said
    assert "is for EM_X86_64, not for EM_AARCH64" in refused(good, name.format("2_17_aarch64"))
    assert "is for no machine of these: x86_64, aarch64" in refused(good, name.format("2_17_vax"))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", SCRIPT, "--out", tmp_path / "dist"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "pip install ziglang pyelftools" in done.stderr
    assert "'smelt[wheels]'" in done.stderr
    assert not (tmp_path / "dist").exists()


# ---- what they do ---------------------------------------------------------------------------


def test_the_wheel_runs_here(wheels: dict[str, Path], rows: np.ndarray, tmp_path: Path) -> None:
    """Installed by pip, into a folder of its own."""
    here = wheels.get(platform.machine())
    if here is None or platform.libc_ver()[0] != "glibc":
        pytest.skip(f"no wheel is for {platform.machine()} with this C library")
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*install, "--disable-pip-version-check", "--target", site, here], check=True, cwd=tmp_path
    )
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, "x.npy", "y.npy"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == site / "smelt" / "__init__.py"
    wanted = smelt.compile(model(), options=OPTIONS)(rows).numpy()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)


def on_arm(wheel: Path, folder: Path, program: str, *arguments: str) -> np.ndarray:
    """What a program writes into y.npy, with Python and smelt for ARM."""
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is missing: make setup-edge")
    if not (ARM / "usr" / "bin" / "python3").exists():
        pytest.skip("the Python for ARM of scripts/arm64_python.sh is missing: make setup-edge")
    site, y = folder / "site", folder / "y.npy"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    said = CROSS["aarch64"].run([
        "-L", ARM, "-E", f"PYTHONPATH={site}", ARM / "usr" / "bin" / "python3",
        "-c", program, folder / "x.npy", y, *arguments,
    ])  # fmt: skip
    assert Path(said.strip()) == site / "smelt" / "__init__.py"
    made: np.ndarray = np.load(y)
    return made


def test_the_wheel_for_arm_runs_a_library_of_this_machine(
    wheels: dict[str, Path], rows: np.ndarray, tmp_path: Path
) -> None:
    artifact = smelt.compile_artifact(model(), CROSS["aarch64"].target, options=OPTIONS)
    artifact.export_library(tmp_path / "net.so", cc=[*ZIG, "aarch64-linux-gnu"])
    found = on_arm(wheels["aarch64"], tmp_path, LOADED, str(tmp_path / "net.so"))
    wanted = smelt.compile(model(), options=OPTIONS)(rows).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


def test_the_wheel_for_arm_compiles_there(
    wheels: dict[str, Path], rows: np.ndarray, tmp_path: Path
) -> None:
    """All of it: the importer of ONNX, the rules, LLVM."""
    found = on_arm(wheels["aarch64"], tmp_path, COMPILED)
    wanted = smelt.compile(model(), options=OPTIONS)(rows).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
