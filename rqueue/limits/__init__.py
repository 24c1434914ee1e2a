"""Circuit breakers and slow-downs of rate-limited services."""
