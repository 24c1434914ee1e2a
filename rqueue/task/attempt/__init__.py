"""The end of an attempt: reasons, retries, breakers, blame and error texts."""
