"""The validators: each says why an output does not pass."""
