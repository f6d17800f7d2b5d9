"""What is there: policies, workloads, pods, and samples of what they use."""
