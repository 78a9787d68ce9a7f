"""Small members of four families: their training steps compiled here, in float64."""

import timm
import torch
from compiled_steps import report
from timm.models.efficientnet import _gen_efficientnet
from timm.models.resnet import BasicBlock, ResNet

SMALL = {"num_classes": 4}
MODELS = {
    "resnet": lambda: ResNet(BasicBlock, (1, 1, 1, 1), channels=(8, 8, 16, 16), stem_width=8, **SMALL),
    "vit": lambda: timm.create_model(
        "vit_tiny_patch16_224", img_size=32, depth=2, embed_dim=24, num_heads=2, **SMALL
    ),
    "convnext": lambda: timm.create_model("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16), **SMALL),
    "efficientnet": lambda: _gen_efficientnet(
        "efficientnet_b0", channel_multiplier=0.25, depth_multiplier=0.3, **SMALL
    ),
}
# more pictures than classes, and a small rate: otherwise norms over four values amplify rounding, in PyTorch too
images = torch.randn(12, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
report(
    {
        name: (
            make,
            lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
            [images, torch.arange(12) % 4],
            lambda model, x, y: torch.nn.functional.cross_entropy(model(x), y),
        )
        for name, make in MODELS.items()
    }
)
