"""Operators of torchvision: boxes, regions of images, and modules that models share."""

from .boxes import batched_nms as batched_nms
from .boxes import box_area as box_area
from .boxes import box_convert as box_convert
from .boxes import box_iou as box_iou
from .boxes import clip_boxes_to_image as clip_boxes_to_image
from .boxes import complete_box_iou as complete_box_iou
from .boxes import distance_box_iou as distance_box_iou
from .boxes import generalized_box_iou as generalized_box_iou
from .boxes import masks_to_boxes as masks_to_boxes
from .boxes import nms as nms
from .boxes import remove_small_boxes as remove_small_boxes
from .deform_conv import DeformConv2d as DeformConv2d
from .deform_conv import deform_conv2d as deform_conv2d
from .focal_loss import sigmoid_focal_loss as sigmoid_focal_loss
from .misc import MLP as MLP
from .misc import Conv2dNormActivation as Conv2dNormActivation
from .misc import Conv3dNormActivation as Conv3dNormActivation
from .misc import FrozenBatchNorm2d as FrozenBatchNorm2d
from .misc import Permute as Permute
from .misc import SqueezeExcitation as SqueezeExcitation
from .roi_align import RoIAlign as RoIAlign
from .roi_align import roi_align as roi_align
from .roi_pool import RoIPool as RoIPool
from .roi_pool import roi_pool as roi_pool
from .stochastic_depth import StochasticDepth as StochasticDepth
from .stochastic_depth import stochastic_depth as stochastic_depth
