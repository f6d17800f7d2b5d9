"""What the workload API itself asks of its kinds."""
