"""When: leadership, rounds, what is written after each."""
