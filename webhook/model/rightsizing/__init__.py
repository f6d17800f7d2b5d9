"""The kinds of `rightsizing.kubex.ai/v1alpha1` that concern GPUs, and how they are read."""
