"""``torchvision.transforms.v2``: transforms of images together with their masks, boxes and labels."""

from functorch_port.vision._refused import refusing as _refusing
from functorch_port.vision.transforms._modes import InterpolationMode
from functorch_port.vision.transforms.autoaugment import AutoAugmentPolicy

from . import functional
from ._augment import CutMix, MixUp, RandomErasing
from ._auto_augment import AugMix, AutoAugment, RandAugment, TrivialAugmentWide
from ._color import (
    RGB,
    ColorJitter,
    Grayscale,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomChannelPermutation,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from ._container import Compose, RandomApply, RandomChoice, RandomOrder
from ._geometry import (
    CenterCrop,
    ElasticTransform,
    FiveCrop,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResize,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    TenCrop,
)
from ._misc import (
    ClampBoundingBoxes,
    ConvertBoundingBoxFormat,
    ConvertImageDtype,
    GaussianBlur,
    GaussianNoise,
    Identity,
    Lambda,
    LinearTransformation,
    Normalize,
    ToDtype,
)
from ._transform import Transform, check_type, has_all, has_any, query_chw, query_size
from ._type_conversion import PILToTensor, ToImage, ToPILImage, ToPureTensor, ToTensor

__all__ = [
    "AugMix", "AutoAugment", "AutoAugmentPolicy", "CenterCrop", "ClampBoundingBoxes", "ColorJitter", "Compose",
    "ConvertBoundingBoxFormat", "ConvertImageDtype", "CutMix", "ElasticTransform", "FiveCrop", "GaussianBlur",
    "GaussianNoise", "Grayscale", "Identity", "InterpolationMode", "Lambda", "LinearTransformation", "MixUp",
    "Normalize", "PILToTensor", "Pad", "RGB", "RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomApply",
    "RandomAutocontrast", "RandomChannelPermutation", "RandomChoice", "RandomCrop", "RandomEqualize", "RandomErasing",
    "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomPerspective", "RandomPosterize",
    "RandomResize", "RandomResizedCrop", "RandomRotation", "RandomSolarize", "RandomVerticalFlip", "Resize", "TenCrop",
    "ToDtype", "ToImage", "ToPILImage", "ToPureTensor", "ToTensor", "Transform", "TrivialAugmentWide", "check_type",
    "functional", "has_all", "has_any", "query_chw", "query_size",
]  # fmt: skip

_ELSEWHERE = """ClampKeyPoints JPEG RandomIoUCrop RandomPhotometricDistort RandomShortestSize RandomZoomOut
SanitizeBoundingBoxes SanitizeKeyPoints ScaleJitter SetClampingMode UniformTemporalSubsample get_bounding_boxes
get_keypoints"""

__getattr__ = _refusing(
    __name__, _ELSEWHERE.split(), "a subclass of v2.Transform, with make_params and transform"
)
