"""GPUs in a pod: what it asks for, and how a recommendation is written into it."""
