"""Gatewright: the admission gate for AI workloads on Kubernetes."""
