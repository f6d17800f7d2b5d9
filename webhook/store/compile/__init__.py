"""Documents, compiled into one snapshot."""
