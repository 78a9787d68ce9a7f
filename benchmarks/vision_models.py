"""What torchvision's operators and a step of training cost here and there: milliseconds.

python benchmarks/vision_models.py                # this library
python benchmarks/vision_models.py torchvision    # PyTorch and torchvision; one process each
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np


def libraries(name: str):
    """torch, and torchvision's models and operators, by the real libraries or this one."""
    if name == "torchvision":
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
        import torch
        from real_torchvision import torchvision

        torch.set_num_threads(1)
        return torch, torchvision.models, torchvision.ops
    import functorch_port as torch
    from functorch_port.vision import models, ops

    return torch, models, ops


def cases(torch, models, ops, compiled: bool):
    """Functions by what they do."""
    rng = np.random.default_rng(0)
    corners = np.sort(rng.uniform(0, 200, (1000, 2, 2)), 1).reshape(1000, 4).astype(np.float32)
    boxes, scores = torch.tensor(corners), torch.tensor(rng.uniform(size=1000).astype(np.float32))
    features = torch.rand(1, 64, 50, 50, requires_grad=True)
    some = boxes[:100]

    def regions() -> None:
        features.grad = None
        ops.roi_align(features, [some], 7, 0.25, 2).sum().backward()

    net = models.resnet18(num_classes=10)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.rand(8, 3, 64, 64), torch.arange(8)

    def step():
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        opt.step()
        return loss.detach()

    train = torch.compile(step) if compiled else step
    return {
        "nms of 1000 boxes": lambda: ops.nms(boxes, scores, 0.5).tolist(),
        "box_iou of 1000 x 1000": lambda: ops.box_iou(boxes, boxes)[0, 0].item(),
        "roi_align of 100 boxes, 64 x 50 x 50, and its gradient": lambda: (
            regions(),
            features.grad[0, 0, 0, 0].item(),
        ),
        "resnet18, a step of training, 8 x 64 x 64": lambda: train().item(),
    }


def main() -> None:
    """Print the median of some calls of each."""
    name = sys.argv[1] if len(sys.argv) > 1 else "functorch_port"
    for what, call in cases(*libraries(name), compiled=name != "torchvision").items():
        for _ in range(3):
            call()
        times = []
        for _ in range(9):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        print(f"{what:<56}{1000 * statistics.median(times):9.2f}", flush=True)


if __name__ == "__main__":
    main()
