"""``torch.autograd.anomaly_mode``."""

from .._tensor.anomaly import detect_anomaly as detect_anomaly
from .._tensor.anomaly import set_detect_anomaly as set_detect_anomaly
