"""Enforcements and one object to changes and violations."""
