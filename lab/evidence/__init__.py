"""Recorded results with their provenance, recomputed whenever they are checked. Standard library only."""

from lab.evidence.errors import EvidenceError
from lab.evidence.manifest import write_manifest
from lab.evidence.record import Evidence, load, record
from lab.evidence.verify import Finding, verify

__all__ = ["Evidence", "EvidenceError", "Finding", "load", "record", "verify", "write_manifest"]
