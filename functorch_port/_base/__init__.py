"""What the rest is made of: dtypes, devices, settings, layouts. Nothing here knows of tensors."""
