"""Canonical JSON, digests and atomic writes: equal content is equal bytes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def plain(value: object) -> Any:
    """`value` as JSON gives it back: tuples become lists, keys strings. NaN and infinity are refused.

    :raises ValueError, TypeError: the value has no JSON form
    """
    return json.loads(json.dumps(value, allow_nan=False))


def canonical(value: object) -> bytes:
    """The one byte string that stands for `value`: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def sha256_file(path: Path) -> str:
    """SHA-256 of the bytes of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pretty(value: object) -> str:
    """Readable JSON with one member a line, but lists of plain values on one line; ends in a newline."""
    return _pretty(value, "") + "\n"


def _pretty(value: object, indent: str) -> str:
    inner = indent + "  "
    if isinstance(value, dict) and value:
        rows = [f"{inner}{_dump(key)}: {_pretty(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(inner + _pretty(item, inner) for item in value) + f"\n{indent}]"
    return _dump(value)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text` (UTF-8, LF) in one step: a reader sees the old or the new file, never half."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
