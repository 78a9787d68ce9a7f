"""The transforms of ``torchvision.transforms``, each of which is a function of an image."""

from ._containers import (
    Compose,
    ConvertImageDtype,
    Lambda,
    LinearTransformation,
    Normalize,
    PILToTensor,
    RandomApply,
    RandomChoice,
    RandomOrder,
    ToPILImage,
    ToTensor,
)
from ._geometric import (
    CenterCrop,
    FiveCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    TenCrop,
)
from ._modes import InterpolationMode
from ._photometric import (
    ColorJitter,
    GaussianBlur,
    Grayscale,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from ._warping import ElasticTransform, RandomAffine, RandomPerspective, RandomRotation

__all__ = [
    "CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "ElasticTransform", "FiveCrop", "GaussianBlur",
    "Grayscale", "InterpolationMode", "Lambda", "LinearTransformation", "Normalize", "PILToTensor", "Pad",
    "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChoice", "RandomCrop",
    "RandomEqualize", "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder",
    "RandomPerspective", "RandomPosterize", "RandomResizedCrop", "RandomRotation", "RandomSolarize",
    "RandomVerticalFlip", "Resize", "TenCrop", "ToPILImage", "ToTensor",
]  # fmt: skip
