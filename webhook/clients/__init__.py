"""HTTP out: the Kubernetes API server."""
