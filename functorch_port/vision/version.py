"""The version of torchvision whose names these are."""

__version__ = "0.28.0"
git_version, cuda = "Unknown", None
