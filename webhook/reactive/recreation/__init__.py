"""May a pod be evicted now, and the eviction."""
