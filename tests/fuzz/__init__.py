"""
Input that nobody would write, at every door where input comes in from outside.

The same examples in each run, so that a failure is one tomorrow too; see `budget`.
"""
