"""The models of the suite in PyTorch's words; every function takes the library first, so both run the same lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import networks
import numpy as np

__all__ = ["JOBS", "Job", "Setup"]


class Setup(NamedTuple):
    """A model with its data, ready to run.

    Attributes:
        modules: what the training step changes, to wait for.
        train: one training step; returns a loss.
        infer: one pass without gradients.
        program: of one written in JAX: the step as a pure function that gets its state first, and its arguments.
    """

    modules: Sequence[Any]
    train: Callable[[], Any]
    infer: Callable[[], Any]
    program: tuple[Any, ...] = ()


class Job(NamedTuple):
    """What a model learns: how to make it, its batch, its loss and its optimizer."""

    make: Callable[[Any], Any]
    batch: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]
    loss: Callable[[Any, Any, Any], Any]
    optimizer: str = "SGD"

    def set_up(self, lib: Any, wrap: Any = None) -> Setup:
        """The model in one library; ``wrap`` compiles its steps."""
        batch = self.batch(np.random.default_rng(0))
        lib.torch.manual_seed(0)
        model, twin = self.make(lib), self.make(lib).eval()
        optimizer = optimizer_of(lib, self.optimizer, model)
        train = networks.training(lib, model, partial(self.loss, lib), batch, wrap, optimizer=optimizer)
        x, infer = lib.torch.from_numpy(batch[0]), lib.torch.no_grad()(lambda x: twin(x))
        infer = infer if wrap is None else wrap(infer)
        return Setup([model], train, lambda: infer(x))


class GanJob(NamedTuple):
    """Two networks that learn from each other: DCGAN, one step of either per call."""

    images: tuple[int, ...] = (32, 3, 32, 32)
    noise: int = 100

    def set_up(self, lib: Any, wrap: Any = None) -> Setup:
        """The pair in one library; ``wrap`` compiles its steps."""
        torch, F = lib.torch, lib.F
        wrap = wrap or (lambda fn: fn)
        rng = np.random.default_rng(0)
        real = torch.from_numpy(np.tanh(rng.standard_normal(self.images)).astype(np.float32))
        noise = torch.from_numpy(rng.standard_normal((self.images[0], self.noise, 1, 1)).astype(np.float32))
        torch.manual_seed(0)
        generator, critic = dcgan(lib, self.noise)
        twin = dcgan(lib, self.noise)[0].eval()
        of_generator, of_critic = (optimizer_of(lib, "Adam", m) for m in (generator, critic))

        def score(images: Any, wanted: float) -> Any:
            out = critic(images)
            return F.binary_cross_entropy_with_logits(out, torch.full_like(out, wanted))

        def step(real: Any, noise: Any) -> Any:
            fake = generator(noise)
            of_critic.zero_grad()
            critic_loss = score(real, 1.0) + score(fake.detach(), 0.0)
            critic_loss.backward()
            of_critic.step()
            of_generator.zero_grad()
            loss = score(fake, 1.0)
            loss.backward()
            of_generator.step()
            return critic_loss + loss

        train, infer = wrap(step), wrap(torch.no_grad()(lambda noise: twin(noise)))
        return Setup([generator, critic], lambda: train(real, noise), lambda: infer(noise))


def optimizer_of(lib: Any, name: str, model: Any) -> Any:
    """The optimizer by name, with the suite's settings."""
    settings = {
        "SGD": {"lr": networks.LR},
        "momentum": {"lr": networks.LR, "momentum": 0.9},
        "Adam": {"lr": 2e-4, "betas": (0.5, 0.999)},
        "AdamW": {"lr": 3e-4},
    }[name]
    return getattr(lib.optim, name.replace("momentum", "SGD"))(model.parameters(), **settings)


# -------------------------------------------------------------------- models


def resnet18(lib: Any, small: bool) -> Any:
    """ResNet-18; ``small`` has the stem for 32x32 images."""
    nn, F = lib.nn, lib.F

    class Block(nn.Module):
        def __init__(self, n: int, m: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(n, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m)
            self.conv2, self.bn2 = nn.Conv2d(m, m, 3, 1, 1, bias=False), nn.BatchNorm2d(m)
            self.shortcut = nn.Identity()
            if stride != 1 or n != m:
                self.shortcut = nn.Sequential(nn.Conv2d(n, m, 1, stride, bias=False), nn.BatchNorm2d(m))

        def forward(self, x: Any) -> Any:
            out = F.relu(self.bn1(self.conv1(x)))
            return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))

    stem: list[Any] = [nn.Conv2d(3, 64, *((3, 1, 1) if small else (7, 2, 3)), bias=False)]
    stem += [nn.BatchNorm2d(64), nn.ReLU()]
    if not small:
        stem.append(nn.MaxPool2d(3, 2, 1))
    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    sizes += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*stem, *(Block(*s) for s in sizes), *head)


def block(lib: Any, width: int, heads: int, causal: bool) -> Any:
    """A pre-norm transformer block."""
    nn, F = lib.nn, lib.F

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            n, t, c = x.shape
            parts = self.qkv(self.norm1(x)).view(n, t, 3, heads, c // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            x = x + self.out(a.transpose(1, 2).reshape(n, t, c))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    return Block()


def gpt(lib: Any, layers: int, width: int, heads: int, context: int, tokens: int) -> Any:
    """A GPT."""
    torch, nn = lib.torch, lib.nn

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(*(block(lib, width, heads, causal=True) for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    return GPT()


def vit_tiny(lib: Any) -> Any:
    """ViT-Ti/16 at 224x224."""
    torch, nn = lib.torch, lib.nn

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 192, 16, 16)
            self.first = nn.Parameter(torch.zeros(1, 1, 192))
            self.places = nn.Parameter(torch.zeros(1, 197, 192))
            self.blocks = nn.Sequential(*(block(lib, 192, 3, causal=False) for _ in range(12)))
            self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])

    return ViT()


def lstm(lib: Any, tokens: int = 1000, hidden: int = 256) -> Any:
    """A language model: two layers of LSTM."""
    nn = lib.nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(tokens, hidden)
            self.layers = nn.LSTM(hidden, hidden, 2)
            self.head = nn.Linear(hidden, tokens)

        def forward(self, x: Any) -> Any:
            return self.head(self.layers(self.tokens(x))[0])

    return Model()


def unet(lib: Any, width: int = 16, classes: int = 11) -> Any:
    """A U-Net with transposed convolutions."""
    torch, nn, F = lib.torch, lib.nn, lib.F

    def two(n: int, m: int) -> Any:
        layers: list[Any] = []
        for a in (n, m):
            layers += [nn.Conv2d(a, m, 3, padding=1), nn.BatchNorm2d(m), nn.ReLU()]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down1, self.down2 = two(1, width), two(width, 2 * width)
            self.bottom = two(2 * width, 4 * width)
            self.grow2, self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), two(4 * width, 2 * width)
            self.grow1, self.up1 = nn.ConvTranspose2d(2 * width, width, 2, 2), two(2 * width, width)
            self.head = nn.Conv2d(width, classes, 1)

        def forward(self, x: Any) -> Any:
            first = self.down1(x)
            second = self.down2(F.max_pool2d(first, 2))
            x = self.grow2(self.bottom(F.max_pool2d(second, 2)))
            x = self.grow1(self.up2(torch.cat([x, second], dim=1)))
            return self.head(self.up1(torch.cat([x, first], dim=1)))

    return UNet()


def dcgan(lib: Any, noise: int, width: int = 32) -> tuple[Any, Any]:
    """A generator of 32x32 images and its critic."""
    nn = lib.nn
    sizes = [noise, 4 * width, 2 * width, width]
    up: list[Any] = []
    for i, (n, m) in enumerate(pairwise(sizes)):
        step = (4, 2, 1) if i else (4, 1, 0)
        up += [nn.ConvTranspose2d(n, m, *step, bias=False), nn.BatchNorm2d(m), nn.ReLU()]
    up += [nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh()]
    down: list[Any] = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)]
    for n, m in ((width, 2 * width), (2 * width, 4 * width)):
        down += [nn.Conv2d(n, m, 4, 2, 1, bias=False), nn.BatchNorm2d(m), nn.LeakyReLU(0.2)]
    down.append(nn.Conv2d(4 * width, 1, 4, bias=False))
    return nn.Sequential(*up), nn.Sequential(*down)


# --------------------------------------------------------------------- batches


def images(*shape: int, classes: int = 10) -> Callable[[np.random.Generator], Any]:
    """Images and a class for each."""
    return lambda rng: (rng.standard_normal(shape).astype(np.float32), rng.integers(0, classes, shape[0]))


def pixels(*shape: int, classes: int = 11) -> Callable[[np.random.Generator], Any]:
    """Images and a class for each pixel."""
    wanted = (shape[0], *shape[2:])
    return lambda rng: (rng.standard_normal(shape).astype(np.float32), rng.integers(0, classes, wanted))


def text(*shape: int, tokens: int) -> Callable[[np.random.Generator], Any]:
    """Tokens and those that follow."""
    return lambda rng: tuple(rng.integers(0, tokens, (2, *shape)))


def _classes(lib: Any, out: Any, y: Any) -> Any:
    return lib.F.cross_entropy(out, y)


def _log_classes(lib: Any, out: Any, y: Any) -> Any:
    return lib.F.nll_loss(out, y)


def _next(lib: Any, out: Any, y: Any) -> Any:
    return lib.F.cross_entropy(out.flatten(0, 1), y.flatten())


JOBS: dict[str, Job | GanJob] = {
    "MLP 64, b16": Job(lambda lib: networks.mlp(lib, (64, 64, 64, 10)), images(16, 64), _classes),
    "MLP 784, b64": Job(lambda lib: networks.mlp(lib, (784, 512, 512, 10)), images(64, 784), _classes),
    "CNN, b64": Job(networks.cnn, images(64, 1, 28, 28), _log_classes),
    "ResNet-18 32x32, b16": Job(lambda lib: resnet18(lib, True), images(16, 3, 32, 32), _classes, "momentum"),
    "ResNet-18 224x224, b4": Job(
        lambda lib: resnet18(lib, False), images(4, 3, 224, 224), _classes, "momentum"
    ),
    "ViT-Ti/16, b8": Job(vit_tiny, images(8, 3, 224, 224), _classes, "AdamW"),
    "GPT 0.8M, b12x64": Job(lambda lib: gpt(lib, 4, 128, 4, 64, 65), text(12, 64, tokens=65), _next, "AdamW"),
    "GPT 10M, b4x256": Job(lambda lib: gpt(lib, 6, 384, 6, 256, 65), text(4, 256, tokens=65), _next, "AdamW"),
    "LSTM 256, b20x35": Job(lstm, text(35, 20, tokens=1000), _next, "SGD"),
    "U-Net 64x64, b4": Job(unet, pixels(4, 1, 64, 64), _classes, "Adam"),
    "DCGAN 32x32, b32": GanJob(),
}
