"""The exceptions of the evidence package."""

from __future__ import annotations


class EvidenceError(Exception):
    """A piece of evidence is missing, malformed, edited, or cannot be recorded."""
