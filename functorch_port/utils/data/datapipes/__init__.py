"""``torch.utils.data.datapipes``: the names of data pipes, which are not here."""
