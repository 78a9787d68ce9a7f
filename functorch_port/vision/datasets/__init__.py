"""``torchvision.datasets``: images and their classes, from files in their usual folders."""

from functorch_port.vision._refused import refusing as _refusing

from .cifar import CIFAR10, CIFAR100
from .fakedata import FakeData
from .folder import DatasetFolder, ImageFolder
from .mnist import KMNIST, MNIST, FashionMNIST
from .vision import VisionDataset

__all__ = [
    "CIFAR10", "CIFAR100", "DatasetFolder", "FakeData", "FashionMNIST", "ImageFolder", "KMNIST", "MNIST",
    "VisionDataset",
]  # fmt: skip

_ELSEWHERE = """CLEVRClassification CREStereo Caltech101 Caltech256 CarlaStereo CelebA Cityscapes CocoCaptions
CocoDetection Country211 DTD EMNIST ETH3DStereo EuroSAT FER2013 FGVCAircraft FallingThingsStereo Flickr30k Flickr8k
Flowers102 FlyingChairs FlyingThings3D Food101 GTSRB HD1K HMDB51 INaturalist ImageNet Imagenette InStereo2k Kinetics
Kitti Kitti2012Stereo Kitti2015Stereo KittiFlow LFWPairs LFWPeople LSUN LSUNClass Middlebury2014Stereo MovingMNIST
Omniglot OxfordIIITPet PCAM PhotoTour Places365 QMNIST RenderedSST2 SBDataset SBU SEMEION STL10 SUN397 SVHN
SceneFlowStereo Sintel SintelStereo StanfordCars UCF101 USPS VOCDetection VOCSegmentation WIDERFace
wrap_dataset_for_transforms_v2"""

__getattr__ = _refusing(
    __name__,
    _ELSEWHERE.split(),
    "put the images into one folder for each class, and read them with datasets.ImageFolder; or write a "
    "torch.utils.data.Dataset that reads the files",
)
