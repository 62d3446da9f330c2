"""onnxruntime, where it is installed: the reference of results and of times."""

import importlib.util
from collections.abc import Mapping, Sequence

from smelt.cli.console import UsageError
from smelt.cli.results import Array


def installed() -> bool:
    """Whether there is an onnxruntime to compare with."""
    return importlib.util.find_spec("onnxruntime") is not None


def needs_peer() -> None:
    """Refuse to go on without an onnxruntime."""
    if not installed():
        raise UsageError("onnxruntime is not installed: pip install onnxruntime")


class Peer:
    """An onnxruntime session on the CPU."""

    name = "onnxruntime"

    def __init__(
        self, model: str | bytes, threads: int, spins: bool = True, optimises: bool = True
    ) -> None:
        """Load a model file, or the bytes of one; the session uses `threads` cores.

        spins      whether its threads keep their cores busy between calls
        optimises  whether it may rewrite the graph
        """
        needs_peer()
        import onnxruntime  # noqa: PLC0415  (optional)

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if not optimises:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if not spins:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its own classes share no public base
            raise UsageError(f"onnxruntime cannot load the model: {error}") from error
        self.version: str = onnxruntime.__version__
        self.inputs: list[str] = [tensor.name for tensor in self._session.get_inputs()]

    def __call__(self, feeds: Mapping[str, Array]) -> Sequence[Array]:
        """All outputs, in the model's order."""
        try:
            outputs: Sequence[Array] = self._session.run(None, feeds)
        except Exception as error:
            raise UsageError(f"onnxruntime cannot run the model: {error}") from error
        return outputs
