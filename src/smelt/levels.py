"""One library for several processors of a family; where it is loaded, it runs its best code that
the processor has the instructions for.

    levels = smelt.compile_levels("resnet18.onnx", "x86-64-v2,x86-64-v3,x86-64-v4")
    levels.export_library("resnet18.so")

Each processor has kernels and constants of its own in the file, since constants are packed for
kernels; only those that are used are mapped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.artifact.artifact import Artifact
from smelt.codegen.llvm import is_native, resolve
from smelt.frontend.source import ModelSource
from smelt.ir.errors import TargetError
from smelt.pipeline import as_target, compile_artifact
from smelt.runtime.archive import export
from smelt.runtime.files import check_library
from smelt.runtime.linking import Linker
from smelt.target import Target
from smelt.target.processor import architecture, needed_features

_LIST = re.compile(r"(?:(?P<before>.*\s-mcpu=)|)(?P<cpus>[\w.-]+(?:,[\w.-]+)+)(?P<after>\s.*|)")
_LISTED = '"x86-64-v2,x86-64-v3,x86-64-v4" or "llvm -mtriple=... -mcpu=cortex-a72,cortex-a76"'


@dataclass(frozen=True)
class Levels:
    """A model that is compiled for several processors, and not loaded.

    artifacts  one for each, the one with most features first
    """

    artifacts: tuple[Artifact, ...]

    @property
    def metadata(self) -> dict[str, Any]:
        """The description of its best form."""
        return self.artifacts[0].metadata

    def export_library(
        self,
        path: str | os.PathLike[str],
        fcompile: Linker | None = None,
        *,
        cc: str | Sequence[str] | None = None,
        header: bool = False,
    ) -> None:
        """Write one library with the code for all of them, as `Artifact.export_library` does."""
        best, *lesser = self.artifacts
        native = is_native(best.target)
        check_library(path, "" if native else best.target.mtriple)
        if not native:
            best.check_portable(Path(path))
        export(best.linkable(lesser), path, cc=cc, fcompile=fcompile, header=header)


def is_list(target: object) -> bool:
    """Whether a target names several processors."""
    return isinstance(target, str) and _LIST.fullmatch(target.strip()) is not None


def level_targets(targets: str | Sequence[str | Target]) -> list[Target]:
    """The targets of a list, or of a text with several processors, resolved, in order: who has more
    features comes first. Raises TargetError."""
    if isinstance(targets, str):
        found = _LIST.fullmatch(targets.strip())
        if found is None:
            raise TargetError(f"target {targets!r} names no list of processors, e.g. {_LISTED}")
        before, after = found["before"] or "", found["after"]
        targets = [f"{before}{cpu}{after}" for cpu in found["cpus"].split(",")]
    made = [resolve(as_target(t)) for t in targets]
    if not made:
        raise TargetError(f"compile_levels: no targets; legal: {_LISTED}")
    others = {t.mtriple for t in made} - {made[0].mtriple}
    if others or architecture(made[0]) == "wasm":
        kinds = ", ".join([made[0].mtriple, *sorted(others)])
        raise TargetError(
            f"one library is for processors of one family and one system, not for {kinds}"
        )
    features = [tuple(needed_features(t)) for t in made]
    if len({*features}) < len(made):
        same = next(n for n, f in enumerate(features) if f in features[:n])
        raise TargetError(
            f"{made[same]} has the same features as {made[features.index(features[same])]}, and "
            "code is picked by features: name one of them"
        )
    return sorted(made, key=lambda t: -len(needed_features(t)))


def compile_levels(
    model: ModelSource, targets: str | Sequence[str | Target], **keywords: Any
) -> Levels:
    """A model compiled for several processors of one family; nothing of it is loaded.

    targets   several, or one with a list of processors: "x86-64-v2,x86-64-v3,x86-64-v4",
              "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72,cortex-a76"
    keywords  those of `compile_artifact`

    Raises TargetError where the targets do not belong together, and what `compile_artifact` does.
    """
    found = level_targets(targets)
    return Levels(tuple([compile_artifact(model, t, **keywords) for t in found]))
