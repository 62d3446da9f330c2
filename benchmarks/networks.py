"""The networks of the zoo in torch, and their export: `python -m benchmarks.networks NAME FOLDER`.

Source of the sizes: the papers and model cards of each; ds-cnn as in MLPerf Tiny.
"""

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

OPSET = 18
SEED = 2024

Feeds = dict[str, np.ndarray[Any, np.dtype[Any]]]


def conv_norm(
    i: int,
    o: int,
    side: int | tuple[int, int],
    stride: int = 1,
    groups: int = 1,
    act: nn.Module | None = None,
    pad: tuple[int, int] | None = None,
) -> nn.Sequential:
    """A convolution without bias, its normalisation, and what follows."""
    around = pad if pad is not None else (int(side) // 2 if isinstance(side, int) else 0)
    conv = nn.Conv2d(i, o, side, stride, around, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(o), act or nn.Identity())


def head(channels: int, classes: int) -> list[nn.Module]:
    """The mean of each channel, classified."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(channels, classes)]


class Sum(nn.Module):
    """The body's result and its input (through `skip`) added up, then `act`."""

    def __init__(
        self, body: nn.Module, skip: nn.Module | None = None, act: nn.Module | None = None
    ) -> None:
        """Without `skip` and `act` the input and the sum stay what they are."""
        super().__init__()
        self.body, self.skip, self.act = body, skip or nn.Identity(), act or nn.Identity()

    def forward(self, x: Tensor) -> Any:
        """Run it."""
        return self.act(self.body(x) + self.skip(x))


class Concat(nn.Module):
    """The results of several branches, one behind the other in the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        """Take the branches."""
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """Run it."""
        return torch.cat([branch(x) for branch in self.branches], 1)


class Field(nn.Module):
    """A model of the transformers package that gives one tensor."""

    def __init__(self, model: nn.Module, field: str) -> None:
        """`field` names the tensor."""
        super().__init__()
        self.model, self.field = model, field

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        """Run it."""
        more = {} if attention_mask is None else {"attention_mask": attention_mask}
        return getattr(self.model(input_ids=input_ids, **more), self.field)


def resnet(blocks: tuple[int, ...], bottleneck: bool) -> nn.Module:
    """He et al. 2015, table 1; the stride of a bottleneck stands at its 3x3 convolution."""
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    i = 64
    for stage, count in enumerate(blocks):
        c = 64 * 2**stage
        o = 4 * c if bottleneck else c
        for index in range(count):
            s = 2 if stage and not index else 1
            if bottleneck:
                convs = [conv_norm(i, c, 1, act=nn.ReLU()), conv_norm(c, c, 3, s, act=nn.ReLU())]
                body = nn.Sequential(*convs, conv_norm(c, o, 1))
            else:
                body = nn.Sequential(conv_norm(i, c, 3, s, act=nn.ReLU()), conv_norm(c, o, 3))
            skip = conv_norm(i, o, 1, s) if (s, i) != (1, o) else None
            layers.append(Sum(body, skip, nn.ReLU()))
            i = o
    return nn.Sequential(*layers, *head(i, 1000))


def mobilenet_v2() -> nn.Module:
    """Sandler et al. 2018, table 2."""
    rows = "1 16 1 1, 6 24 2 2, 6 32 3 2, 6 64 4 2, 6 96 3 1, 6 160 3 2, 6 320 1 1"
    layers: list[nn.Module] = [conv_norm(3, 32, 3, 2, act=nn.ReLU6())]
    i = 32
    for row in rows.split(", "):
        grow, o, count, stride = map(int, row.split())
        for s in [stride] + [1] * (count - 1):
            wide = grow * i
            body = [conv_norm(i, wide, 1, act=nn.ReLU6())] if grow > 1 else []
            body += [conv_norm(wide, wide, 3, s, wide, nn.ReLU6()), conv_norm(wide, o, 1)]
            block = nn.Sequential(*body)
            layers.append(Sum(block) if (s, i) == (1, o) else block)
            i = o
    return nn.Sequential(*layers, conv_norm(i, 1280, 1, act=nn.ReLU6()), *head(1280, 1000))


def squeezenet() -> nn.Module:
    """Iandola et al. 2016, the smaller release 1.1."""

    def conv(i: int, o: int, side: int, stride: int = 1, pad: int = 0) -> list[nn.Module]:
        return [nn.Conv2d(i, o, side, stride, pad), nn.ReLU()]

    layers: list[nn.Module] = [*conv(3, 64, 3, 2)]
    i = 64
    for index, squeeze in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        if index in (0, 2, 4):
            layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        o = 4 * squeeze
        branches = [nn.Sequential(*conv(squeeze, o, 1)), nn.Sequential(*conv(squeeze, o, 3, 1, 1))]
        layers += [*conv(i, squeeze, 1), Concat(*branches)]
        i = 2 * o
    return nn.Sequential(*layers, *conv(i, 1000, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(1))


def dscnn() -> nn.Module:
    """Keyword spotting of MLPerf Tiny: 49 frames of 10 coefficients, 12 words."""
    layers = [conv_norm(1, 64, (10, 4), 2, act=nn.ReLU(), pad=(5, 1))]
    for _ in range(4):
        layers += [conv_norm(64, 64, 3, 1, 64, nn.ReLU()), conv_norm(64, 64, 1, act=nn.ReLU())]
    return nn.Sequential(*layers, *head(64, 12))


def mlp() -> nn.Module:
    """Digits: 784, 512, 512, 10."""
    sizes = itertools.pairwise((784, 512, 512, 10))
    layers = [layer for i, o in sizes for layer in (nn.Linear(i, o), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


class Attention(nn.Module):
    """Self attention of `heads` heads, without a mask."""

    def __init__(self, width: int, heads: int) -> None:
        """`width` is that of a token."""
        super().__init__()
        self.heads = heads
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        """Run it."""
        n, tokens, width = x.shape
        parts = self.into(x).view(n, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.permute(0, 2, 1, 3).reshape(n, tokens, width))


class VisionTransformer(nn.Module):
    """Dosovitskiy et al. 2020, ViT-B/16 at 224 x 224."""

    def __init__(
        self, width: int = 768, layers: int = 12, heads: int = 12, patch: int = 16
    ) -> None:
        """The defaults are the base model."""
        super().__init__()

        def norm() -> nn.Module:
            return nn.LayerNorm(width, eps=1e-6)

        def layer() -> nn.Module:
            mlp = [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
            attention = nn.Sequential(norm(), Attention(width, heads))
            return nn.Sequential(Sum(attention), Sum(nn.Sequential(norm(), *mlp)))

        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) / 50)
        self.places = nn.Parameter(torch.randn(1, 1 + (224 // patch) ** 2, width) / 50)
        self.layers = nn.Sequential(*(layer() for _ in range(layers)), norm())
        self.classes = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Any:
        """Run it."""
        x = self.patches(x).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        return self.classes(self.layers(x)[:, 0])


def bert() -> nn.Module:
    """Devlin et al. 2018, the base model."""
    return Field(BertModel(BertConfig(attn_implementation="sdpa")), "last_hidden_state")


def gpt2() -> nn.Module:
    """Radford et al. 2019, the small model, reading a prompt."""
    config = GPT2Config(use_cache=False, attn_implementation="sdpa")
    return Field(GPT2LMHeadModel(config), "logits")


def llama() -> nn.Module:
    """A small model of the Llama kind with grouped queries, reading a prompt."""
    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=512,
        use_cache=False,
        attn_implementation="sdpa",
    )
    return Field(LlamaForCausalLM(config), "logits")


def floats(*shape: int) -> Feeds:
    """A normal input."""
    return {"x": np.random.default_rng(SEED).standard_normal(shape, np.float32)}


def tokens(count: int, vocabulary: int) -> Feeds:
    """Random words."""
    words = np.random.default_rng(SEED).integers(0, vocabulary, (1, count))
    return {"input_ids": words.astype(np.int64)}


IMAGE = floats(1, 3, 224, 224)
MASK = {"attention_mask": np.ones((1, 128), np.int64)}

MODELS: dict[str, tuple[Callable[[], nn.Module], Feeds]] = {
    "mlp": (mlp, floats(1, 784)),
    "dscnn_kws": (dscnn, floats(1, 1, 49, 10)),
    "squeezenet1_1": (squeezenet, IMAGE),
    "mobilenet_v2": (mobilenet_v2, IMAGE),
    "resnet18": (lambda: resnet((2, 2, 2, 2), bottleneck=False), IMAGE),
    "resnet50": (lambda: resnet((3, 4, 6, 3), bottleneck=True), IMAGE),
    "vit_base": (VisionTransformer, IMAGE),
    "bert_base": (bert, tokens(128, 30522) | MASK),
    "gpt2_64": (gpt2, tokens(64, 50257)),
    "llama_s_64": (llama, tokens(64, 32000)),
}


TOKENS = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", max=512)}
DYNAMIC: dict[str, tuple[dict[int, Any], ...]] = {
    "resnet18": ({0: torch.export.Dim("batch")},),
    "bert_base": (TOKENS, TOKENS),
}
"""Networks that are exported with symbolic sizes too: the dimensions of each input that are."""


def settle(model: nn.Module, feeds: Feeds) -> None:
    """He-scaled filters, and statistics of every normalisation as a batch of noise shows them."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
            nn.init.uniform_(module.weight, 0.75, 1.25)
            nn.init.uniform_(module.bias, -0.25, 0.25)
    with torch.no_grad():
        model.train()(torch.randn(8, *feeds["x"].shape[1:]))


def export(name: str, folder: Path) -> None:
    """Write one model and its inputs; the inputs last, so that they mean it is whole.

    NAME_dynamic is the network NAME with symbolic sizes.
    """
    name, dynamic, _ = name.partition("_dynamic")
    torch.manual_seed(SEED)
    build, feeds = MODELS[name]
    model = build()
    if any(isinstance(module, nn.BatchNorm2d) for module in model.modules()):
        settle(model, feeds)
    model.eval().requires_grad_(False)
    if dynamic:  # an exporter takes an extent of 1 for a constant
        feeds = {name: np.repeat(value, 2, 0) for name, value in feeds.items()}
    path, partial = folder / f"{name}{dynamic}.onnx", folder / f"{name}{dynamic}.partial"
    torch.onnx.export(
        model,
        tuple(torch.from_numpy(value) for value in feeds.values()),
        str(partial),
        input_names=list(feeds),
        output_names=["output"],
        opset_version=OPSET,
        dynamo=True,
        external_data=False,
        verbose=False,
        dynamic_shapes=DYNAMIC[name] if dynamic else None,
    )
    proto = onnx.shape_inference.infer_shapes(onnx.load(partial), data_prop=True)
    onnx.checker.check_model(proto)
    onnx.save(proto, partial)
    os.replace(partial, path)
    np.savez(path.with_suffix(".inputs.npz"), allow_pickle=False, **feeds)


if __name__ == "__main__":
    export(sys.argv[1], Path(sys.argv[2]))
