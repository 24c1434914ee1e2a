"""Why a task does not run yet, and what its priority consists of."""
