"""``torch.utils.data.datapipes.iter``: the names of data pipes, which are not here."""
