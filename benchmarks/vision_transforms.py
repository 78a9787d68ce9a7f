"""What the transforms of images cost here and in torchvision: milliseconds for an image of 500 x 375.

python benchmarks/vision_transforms.py                # this library
python benchmarks/vision_transforms.py torchvision    # torchvision; one process each
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def libraries(name: str):
    """torch, torchvision's transforms and its v2, by the real libraries or this one."""
    if name == "torchvision":
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
        import torch
        from real_torchvision import torchvision  # noqa: F401
        from torchvision import transforms
        from torchvision.transforms import v2

        torch.set_num_threads(1)
        return torch, transforms, v2
    import functorch_port as torch
    from functorch_port.vision import transforms
    from functorch_port.vision.transforms import v2

    return torch, transforms, v2


def cases(torch, t, v2, picture):
    """Functions by what they do."""
    prepare = [t.ToTensor(), t.Normalize(MEAN, STD)]
    small = picture.resize((224, 224))
    tensor = t.PILToTensor()(picture)
    batch = torch.rand(32, 3, 224, 224)
    labels = torch.arange(32) % 10
    floats = t.ToTensor()(small)
    on_tensors = v2.Compose(
        [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True),
         v2.Normalize(MEAN, STD)]
    )  # fmt: skip
    train = t.Compose([t.RandomResizedCrop(224), t.RandomHorizontalFlip(), *prepare])
    cifar = t.Compose([t.RandomCrop(32, padding=4), t.RandomHorizontalFlip(), *prepare])
    tiny = picture.resize((32, 32))
    evaluate = t.Compose([t.Resize(256), t.CenterCrop(224), *prepare])
    turn = v2.RandomAffine(20, interpolation="bilinear")
    bytes_ = t.PILToTensor()(small)
    mixup, cutmix = v2.MixUp(num_classes=10), v2.CutMix(num_classes=10)
    return {
        "RandomResizedCrop, flip, ToTensor, Normalize": lambda: train(picture),
        "Resize, CenterCrop, ToTensor, Normalize": lambda: evaluate(picture),
        "the same of 32 x 32 with RandomCrop": lambda: cifar(tiny),
        "ToTensor of 224 x 224": lambda: prepare[0](small),
        "Normalize of 224 x 224": lambda: prepare[1](floats),
        "ColorJitter of 224 x 224": lambda: t.ColorJitter(0.4, 0.4, 0.4, 0.1)(small),
        "RandAugment of 224 x 224": lambda: t.RandAugment()(small),
        "RandomErasing of 224 x 224": lambda: t.RandomErasing(p=1.0)(floats),
        "v2 on a tensor: RandomResizedCrop to Normalize": lambda: on_tensors(tensor),
        "RandomAffine of a tensor of 224 x 224": lambda: turn(bytes_),
        "v2.MixUp of 32 images": lambda: mixup(batch, labels),
        "v2.CutMix of 32 images": lambda: cutmix(batch, labels),
    }


def median(function, seconds: float = 0.7) -> float:
    """The median of its time, in milliseconds."""
    times = []
    for _ in range(3):
        function()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        np.asarray(_last(function()))  # waits for what is lazy
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def _last(out):
    return out[0] if isinstance(out, tuple) else out


def main() -> None:
    """Print a line for each case."""
    name = sys.argv[1] if len(sys.argv) > 1 else "functorch_port"
    torch, t, v2 = libraries(name)
    torch.manual_seed(0)
    noise = np.random.default_rng(0).integers(0, 256, (47, 63, 3)).astype(np.uint8)
    picture = Image.fromarray(noise).resize((500, 375))
    for label, function in cases(torch, t, v2, picture).items():
        print(f"{label:50} {median(function):8.2f} ms  ({name})")


if __name__ == "__main__":
    main()
