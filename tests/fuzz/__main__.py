"""`python -m tests.fuzz --graphs 10000 --seed 0 --workers 2`: generate, run, compare, minimise."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import mutate_models, programs
from .artifacts import Artifacts
from .campaign import Campaign

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; 1 where something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--graphs", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "benchmarks" / "results" / "fuzz.json",
        help="the summary; a run that was stopped goes on from it (benchmarks/results/fuzz.json)",
    )
    parser.add_argument(
        "--regressions",
        type=Path,
        default=Path(__file__).parent / "regressions",
        help="where failures are written, made small",
    )
    parser.add_argument("--models", type=int, default=5000, help="mutated model files (5000)")
    parser.add_argument("--fresh", action="store_true", help="do not go on from the summary")
    parser.add_argument("--minimise", type=float, default=60.0, help="seconds for each failure")
    parser.add_argument("--artifacts", type=int, default=0, help="mutate so many artifacts instead")
    parser.add_argument("--programs", type=int, default=0, help="so many tensor programs instead")
    parser.add_argument("--coverage", action="store_true", help="lines of the C runtime (gcov)")
    a = parser.parse_args(arguments)
    if a.artifacts:
        return Artifacts(a.seed, a.artifacts, a.coverage).run(a.workers)
    if a.programs:
        return programs.run(a.seed, a.programs, a.workers, a.out.with_name("programs"))
    campaign = Campaign(a.seed, a.graphs, a.out, a.regressions, a.minimise)
    if not a.fresh:
        campaign.resume()
    wrong = campaign.run(a.workers) if a.graphs else 0
    return wrong | mutate_models.run(a.seed, a.models, a.workers, a.out.with_name("models"))


if __name__ == "__main__":
    sys.exit(main())
