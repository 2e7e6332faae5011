"""RLCR."""
