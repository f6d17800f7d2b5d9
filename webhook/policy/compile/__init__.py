"""Documents to enforcements."""
