"""Certificates: make, load, reload."""
