"""The command line that the benchmarks share."""

import argparse
from collections.abc import Collection, Mapping
from typing import Any

from benchmarks.report import Results, write


def arguments(
    about: str, parts: Collection[str] = (), more: Mapping[str, Mapping[str, Any]] | None = None
) -> argparse.Namespace:
    """`--only` some parts, `--quick`, and the folder of the zoo. No parts: any names.

    more  flags of one benchmark, and what argparse is told of them
    """
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument(
        "folder", nargs="?", help="the zoo's folder; it is made where none is given"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(parts) or None,
        metavar="PART",
        help=f"measure this alone, may be repeated: {', '.join(parts) or 'names of models'}",
    )
    parser.add_argument("--quick", action="store_true", help="a few cases in under a minute")
    for flag, described in (more or {}).items():
        parser.add_argument(flag, **described)
    return parser.parse_args()


def report(name: str, asked: argparse.Namespace, results: Results, section: str) -> None:
    """Print the results and keep them, but for quick ones; parts replace theirs only."""
    if not asked.quick:
        write(name, results, whole=not asked.only)
    print(section)
