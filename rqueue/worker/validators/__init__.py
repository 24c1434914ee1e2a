"""The validators of outputs; each returns why an output does not pass."""
