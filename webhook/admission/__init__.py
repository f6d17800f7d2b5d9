"""The use case: answer one review. No I/O."""
