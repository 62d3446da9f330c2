"""All five phases, one after the other."""

from __future__ import annotations

from . import auto_tune, manual_schedule, relay_import, schedule_analysis, te_basics
from .report import Report


def main(report: Report | None = None) -> None:
    """Run the five phases."""
    say = report or Report()
    te_basics.main(report=say)
    manual_schedule.main(report=say)
    schedule_analysis.main(report=say)
    relay_import.main(report=say)
    auto_tune.main(report=say, quick=True)


if __name__ == "__main__":
    main()
