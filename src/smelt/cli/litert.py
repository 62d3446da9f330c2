"""TFLite's own kernels, where they are installed: the reference of results of its models."""

from collections.abc import Mapping, Sequence

from smelt.cli.console import UsageError
from smelt.cli.results import Array


class Interpreter:
    """TFLite's reference kernels on a model file."""

    name = "TFLite"

    def __init__(self, model: str) -> None:
        """Load a model file."""
        try:
            from ai_edge_litert import interpreter  # noqa: PLC0415  (optional)
        except ImportError:
            raise UsageError(
                "TFLite's kernels are not installed: pip install ai-edge-litert"
            ) from None
        kind = interpreter.OpResolverType.BUILTIN_REF
        try:
            self._kernels = interpreter.Interpreter(
                model_path=model, experimental_op_resolver_type=kind
            )
            self._kernels.allocate_tensors()
        except Exception as error:
            raise UsageError(f"TFLite cannot load the model: {error}") from error

    def __call__(self, feeds: Mapping[str, Array]) -> Sequence[Array]:
        """All outputs, in the model's order."""
        kernels = self._kernels
        try:
            for d in kernels.get_input_details():
                kernels.resize_tensor_input(d["index"], feeds[d["name"]].shape)
            kernels.allocate_tensors()
            for d in kernels.get_input_details():
                kernels.set_tensor(d["index"], feeds[d["name"]])
            kernels.invoke()
        except Exception as error:
            raise UsageError(f"TFLite cannot run the model: {error}") from error
        return [kernels.get_tensor(d["index"]) for d in kernels.get_output_details()]
