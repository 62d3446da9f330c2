"""Linking with a compiler of the user's choice: `lib.export_library(path, cc.cross_compiler(...))`.

create_shared(output, objects, options, cc)   links a shared library
cross_compiler("aarch64-linux-gnu-gcc")       the same with this compiler, as `fcompile`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.runtime.compilers import find_compiler, run_compiler
from smelt.runtime.errors import ExportError


def get_cc() -> str | None:
    """The command of this machine's C compiler; None where there is none."""
    try:
        return " ".join(find_compiler(None))
    except ExportError:
        return None


def create_shared(
    output: str,
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str | Sequence[str] | None = None,
) -> None:
    """Link objects and C sources to a shared library.

    options  further arguments of the compiler
    cc       its command; None: the one of this machine
    """
    files = [objects] if isinstance(objects, str) else list(objects)
    given = list(options or [])
    libraries = [o for o in given if o.startswith("-l")]
    flags = [o for o in given if not o.startswith("-l")]
    command = [*find_compiler(cc), "-shared", "-fPIC"]
    run_compiler(command, [*flags, *files, "-o", output, *libraries])


def cross_compiler(
    compile_func: str | Callable[..., None],
    options: Sequence[str] | None = None,
    output_format: str = "so",
) -> Callable[..., None]:
    """A function for export_library(fcompile=...).

    compile_func   the command of a compiler, or a function like `create_shared`
    options        arguments that are always given
    output_format  "so" or "tar": how names of what it writes end
    """
    if output_format not in ("so", "tar"):
        raise ExportError(f"cross_compiler: output_format={output_format!r}; legal: 'so', 'tar'")
    fixed = list(options or [])

    def link(output: str, objects: Sequence[str], options: Sequence[str] | None = None) -> None:
        given = [*fixed, *(options or [])]
        if callable(compile_func):
            compile_func(output, objects, options=given)
        else:
            create_shared(output, objects, given, compile_func)

    link.output_format = output_format  # type: ignore[attr-defined]
    return link
