"""Rheo: a browser chat for your own Hugging Face models."""

__version__ = "0.1.0"
