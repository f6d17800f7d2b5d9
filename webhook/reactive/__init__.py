"""The use case "keep GPU allocations right": what pods use decides how much they are given."""
