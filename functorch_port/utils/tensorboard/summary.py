"""``torch.utils.tensorboard.summary``: the records that `SummaryWriter` writes, for writers of one's own."""

from ._records import hparams as hparams
