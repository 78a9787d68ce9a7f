"""``torch.utils.data._utils``: where programs take `default_collate` and its table from."""

from . import collate as collate
from . import worker as worker
