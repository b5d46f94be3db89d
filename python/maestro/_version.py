"""The version of the package, and of the tools that it is for."""

__version__ = "0.1.0"
