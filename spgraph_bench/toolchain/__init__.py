"""Compilers, what they say, and the disk cache of what they built; for devices and readers alike."""
