"""PyTorch models."""

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from .models import close

torch = pytest.importorskip("torch")
nn = torch.nn


def same(model, x, trace=True, limit=1e-4):
    """Import a model, build it, and compare."""
    model = model.eval()
    traced = torch.jit.trace(model, x).eval() if trace else model
    mod, params = relay.frontend.from_pytorch(traced, [("input0", (tuple(x.shape), "float32"))])
    lib = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    module.set_input("input0", tvm.nd.array(x.numpy()))
    module.run()
    with torch.no_grad():
        close(module.get_output(0), np.asarray(model(x)), limit)
    return mod


class Block(nn.Module):
    """Attention and a perceptron, each around a residual."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.before, self.after = nn.LayerNorm(16), nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y)[0]
        return x + self.mlp(self.after(x))


def test_a_convolutional_network():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=8), nn.ReLU6(),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))  # fmt: skip
    mod = same(net, torch.randn(1, 3, 16, 16))
    counts = relay.analysis.list_op_freqs(mod)
    assert counts["nn.conv2d"] == 2
    assert counts["nn.batch_norm"] == 1


def test_a_transformer_block():
    torch.manual_seed(0)
    same(Block(), torch.randn(1, 6, 16), trace=False)


def test_a_recurrent_network():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LSTM(4, 8, batch_first=True)

        def forward(self, x):
            return self.layer(x)[0]

    same(Last(), torch.randn(1, 5, 4))
