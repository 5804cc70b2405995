"""Bring in and take out: exports of other programs and our own, in and out of conversations."""
