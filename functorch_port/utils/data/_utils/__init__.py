"""``torch.utils.data._utils``: programs import `default_collate` and its table from here."""

from . import collate as collate
from . import worker as worker
