"""Small builders of known networks, and helpers for tests of passes.

    mod, params = relay.testing.resnet.get_workload(num_layers=18, image_shape=(3, 64, 64))

Weights are drawn at random, seeded, with the spread that keeps the size of activations.
"""

from . import (
    dcgan,
    densenet,
    dqn,
    inception_v3,
    layers,
    lstm,
    mlp,
    mobilenet,
    resnet,
    squeezenet,
    synthetic,
    vgg,
)
from .workload import create_workload, run_infer_type, run_opt_pass

__all__ = ["create_workload", "dcgan", "densenet", "dqn", "inception_v3", "layers", "lstm", "mlp",
           "mobilenet", "resnet", "run_infer_type", "run_opt_pass", "squeezenet", "synthetic",
           "vgg"]  # fmt: skip
