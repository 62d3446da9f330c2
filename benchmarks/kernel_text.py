"""Whether a change moves any kernel's code: `python -m benchmarks.kernel_text OUT.json [FOLDER]`.

Writes a hash of the LLVM text of every kernel of the light networks, of the networks of the tests
and of the ONNX models in a folder, with static shapes. Run it before and after, then compare:
`python -m benchmarks.kernel_text --compare OLD.json NEW.json` names the kernels that differ.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import smelt
from tests.models.light import NAMES, light
from tests.models.test_networks import NETWORKS

Hashes = dict[str, list[tuple[str, str]]]


def models(folder: Path | None) -> Iterator[tuple[str, Any]]:
    """Names and models."""
    for name in NAMES:
        yield name, light(name)
    for name, (build, *_) in NETWORKS.items():
        yield f"tests {name}", build(2)
    for path in sorted(folder.glob("*.onnx")) if folder is not None else ():
        yield path.stem, str(path)


def kernels(model: Any) -> list[tuple[str, str]]:
    """Names and hashes of a model's kernels. Names do not count: they may be numbered anew."""
    text = smelt.stage_text(model, "llvm")
    found = []
    for part in re.split(r"(?m)^(?=define [^\n]*@(?!task))", text)[1:]:
        match = re.search(r"@([\w.]+)\(", part)
        name = match.group(1) if match else "?"
        plain = part.replace(f"@{name}", "@kernel").split("\ndeclare")[0].rstrip()
        found.append((name, hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()))
    return found


def compare(old: Hashes, new: Hashes) -> int:
    """Print what differs; the number of models with a difference."""
    count = 0
    for name in old.keys() | new.keys():
        a, b = old.get(name, []), new.get(name, [])
        gone = Counter(h for _, h in a) - Counter(h for _, h in b)
        come = Counter(h for _, h in b) - Counter(h for _, h in a)
        if gone or come:
            count += 1
            print(f"{name}: gone {sorted({n for n, h in a if h in gone})}, "
                  f"new {sorted({n for n, h in b if h in come})}")  # fmt: skip
    total = sum(len(k) for k in new.values())
    print(f"{len(new)} models, {total} kernels, {count} models with differences")
    return count


def main(arguments: list[str]) -> int:
    """Write hashes, or compare two files of them."""
    if arguments[:1] == ["--compare"]:
        old, new = (json.loads(Path(p).read_text()) for p in arguments[1:3])
        return 1 if compare(old, new) else 0
    folder = Path(arguments[1]) if len(arguments) > 1 else None
    found: Hashes = {}
    for name, model in models(folder):
        found[name] = kernels(model)
        print(f"{name}: {len(found[name])} kernels")
    Path(arguments[0]).write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
