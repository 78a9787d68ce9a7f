"""What a training step would cost on devices that are not there."""
