"""Linking for Android: `lib.export_library("model.so", ndk.create_shared)`.

The compiler is the one that the environment variable TVM_NDK_CC names, for example
$ANDROID_NDK_HOME/toolchains/llvm/prebuilt/linux-x86_64/bin/aarch64-linux-android28-clang.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from smelt.contrib import cc
from smelt.runtime.errors import ExportError

_VARIABLE = "TVM_NDK_CC"


def create_shared(
    output: str, objects: str | Sequence[str], options: Sequence[str] | None = None
) -> None:
    """Link objects and C sources to a shared library with the compiler of the Android NDK."""
    command = os.environ.get(_VARIABLE)
    if not command:
        raise ExportError(
            f"ndk.create_shared: the environment variable {_VARIABLE} does not name the compiler "
            "of the Android NDK, e.g. .../bin/aarch64-linux-android28-clang"
        )
    cc.create_shared(output, objects, options, shlex.split(command))
