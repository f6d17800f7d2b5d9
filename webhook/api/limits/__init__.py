"""Bounds of what is taken on at once: connections, bodies, reviews, threads."""
