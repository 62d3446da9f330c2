"""Runs every benchmark, and writes RESULTS.md."""

from benchmarks import (
    agreement,
    choices,
    compile_time,
    control,
    dynamic,
    graph_level,
    intrinsics,
    kernels,
    models,
    operators,
    peak,
    real_models,
    regret,
    state,
    symbolic,
    tensor_level,
    threads,
    weight_only,
    zoo,
)
from benchmarks.report import write


def main() -> None:
    """From the machine's limits to the models."""
    folder = models.zoo()
    write("peak", peak.measure())
    write("kernels", kernels.measure())
    write("regret", regret.measure())
    write("intrinsics", intrinsics.measure())
    write("tensor_level", tensor_level.measure())
    write("graph_level", graph_level.measure(folder))
    write("compile_time", compile_time.measure(folder))
    write("choices", choices.measure(folder))
    write("zoo", zoo.measure(folder))
    write("real_models", real_models.measure())
    write("operators", operators.measure())
    write("dynamic", dynamic.measure(models.zoo(names=models.DYNAMIC)))
    write("symbolic", symbolic.measure())
    write("weight_only", weight_only.measure())
    write("control", control.measure())
    write("state", state.measure())
    write("threads", threads.measure(models.zoo(names=(*models.NAMES, *models.DYNAMIC))))
    write("agreement", agreement.measure([folder]))


if __name__ == "__main__":
    main()
