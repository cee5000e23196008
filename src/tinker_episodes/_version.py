"""The package's version, read by the build and by the run index."""

__version__ = "0.1.0"
