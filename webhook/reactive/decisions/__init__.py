"""Pure arithmetic and choice: what a workload's GPUs should be, and why."""
