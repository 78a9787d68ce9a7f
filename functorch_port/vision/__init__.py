"""Images: datasets, transforms, models and operators, with torchvision's names."""
