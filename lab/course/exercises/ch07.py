"""The exercises of chapter 07, a tiny LM on the GPU. Its quiz stands in `quiz07`."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from itertools import product
from typing import Any

from lab.course.calls import call
from lab.course.exercise import Exercise, WrongAnswer
from lab.course.exercises.quiz07 import QUIZ
from lab.course.verdict import Verdict, passed, wrong

# --- 07-1 -----------------------------------------------------------------------------------------


def _check_kv_bytes(names: Mapping[str, Any]) -> Verdict:
    """Small models, the smallest first: with and without grouped heads."""
    cases = [
        (layers, heads, kv_heads, head_size, positions, size)
        for layers, heads, kv_heads in product((1, 2), (1, 2, 4), (1, 2, 4))
        for head_size, positions, size in product((1, 2), (0, 1, 3), (1, 2))
        if heads % kv_heads == 0
    ]
    cases += [(4, 4, 2, 32, 1024, 4), (2, 4, 2, 12, 1024, 4), (80, 64, 8, 128, 8192, 2)]
    for case in cases:
        given = call(names["kv_bytes"], *case)
        problem = _kv_problem(given, *case)
        if problem:
            shown = "kv_bytes(layers={}, heads={}, kv_heads={}, head_size={}, positions={}, value_bytes={})"
            return wrong(problem, f"{shown.format(*case)} gives {given!r}")
    return passed()


def _kv_problem(given: object, *case: int) -> str | None:
    layers, heads, kv_heads, head_size, positions, size = case
    expected = 2 * layers * kv_heads * head_size * positions * size
    if given == expected and not isinstance(given, bool):
        return None
    if not isinstance(given, int | float) or isinstance(given, bool):
        return "it must return a number of bytes"
    if given * kv_heads == expected * heads:
        return "query heads are not kept: several of them share one key/value head"
    if given * layers == expected:
        return "every layer keeps keys and values of its own"
    if given * size == expected:
        return "that is a number of values, not of bytes"
    if 2 * given == expected:
        return "that is the keys alone; the values need as much again"
    return f"it should be {expected}"


KV_BYTES = Exercise(
    id="07-1",
    title="How large is a KV cache?",
    names=("kv_bytes",),
    stub='''\
def kv_bytes(layers, heads, kv_heads, head_size, positions, value_bytes):
    """Bytes of the KV cache of one sequence with so many cached positions.

    heads        query heads in each layer
    kv_heads     key/value heads in each layer; heads / kv_heads query heads share one
    head_size    numbers in one head's vector
    value_bytes  bytes of one number: 4 for float32, 2 for bfloat16

    About one line.
    """
    raise NotImplementedError
''',
    solution="""\
def kv_bytes(layers, heads, kv_heads, head_size, positions, value_bytes):
    return 2 * layers * kv_heads * head_size * positions * value_bytes
""",
    wrong=(
        WrongAnswer(
            "counts the query heads",
            "def kv_bytes(layers, heads, kv_heads, head_size, positions, value_bytes):\n"
            "    return 2 * layers * heads * head_size * positions * value_bytes\n",
            "query heads are not kept",
        ),
        WrongAnswer(
            "forgets that there are keys and values",
            "def kv_bytes(layers, heads, kv_heads, head_size, positions, value_bytes):\n"
            "    return layers * kv_heads * head_size * positions * value_bytes\n",
            "the keys alone",
        ),
        WrongAnswer(
            "counts one layer",
            "def kv_bytes(layers, heads, kv_heads, head_size, positions, value_bytes):\n"
            "    return 2 * kv_heads * head_size * positions * value_bytes\n",
            "every layer",
        ),
        WrongAnswer(
            "counts numbers, not bytes",
            "def kv_bytes(layers, heads, kv_heads, head_size, positions, value_bytes):\n"
            "    return 2 * layers * kv_heads * head_size * positions\n",
            "not of bytes",
        ),
    ),
    hints=(
        "For one position, one layer and one key/value head: which two vectors are kept?",
        "Queries are used once, in the step that makes them, and are never kept.",
        "Multiply: two vectors, layers, key/value heads, head size, positions, bytes of a number.",
    ),
    check=_check_kv_bytes,
    minutes=6,
)

# --- 07-2 -----------------------------------------------------------------------------------------


def _check_rows(names: Mapping[str, Any]) -> Verdict:
    """All short prompts and answers, with and without a cache."""
    for new, prompt, cached in product(range(1, 6), range(1, 6), (False, True)):
        given = call(names["rows_computed"], prompt, new, cached)
        problem = _rows_problem(given, prompt, new, cached)
        if problem:
            shown = f"rows_computed(prompt={prompt}, new={new}, cached={cached}) gives {given!r}"
            return wrong(problem, shown)
    return passed()


def _rows_problem(given: object, prompt: int, new: int, cached: bool) -> str | None:
    expected = prompt + new - 1 if cached else sum(prompt + made for made in range(new))
    if given == expected and isinstance(given, int) and not isinstance(given, bool):
        return None
    if not isinstance(given, int) or isinstance(given, bool):
        return "it must return a whole number"
    if cached and given == prompt + new:
        return "the last new token is never put into the model: nobody asks what follows it"
    if cached and given == new:
        return "the prompt has to go through the model once as well"
    if not cached and given == new * prompt:
        return "without a cache each step also computes the tokens that were made before it"
    if not cached and given == sum(prompt + made + 1 for made in range(new)):
        return "the first new token comes out of the prompt alone"
    return f"it should be {expected}"


ROWS_COMPUTED = Exercise(
    id="07-2",
    title="What a cache saves",
    names=("rows_computed",),
    stub='''\
def rows_computed(prompt, new, cached):
    """How many tokens go through the model until `new` tokens have been made after `prompt` tokens.

    cached=False: every step starts from scratch and puts the whole text so far through the model.
    cached=True:  the prompt goes through once; then each step puts in only the token made last.

    Both numbers are at least 1. About four lines.
    """
    raise NotImplementedError
''',
    solution="""\
def rows_computed(prompt, new, cached):
    if cached:
        return prompt + new - 1
    return sum(prompt + made for made in range(new))
""",
    wrong=(
        WrongAnswer(
            "puts the last token in as well",
            "def rows_computed(prompt, new, cached):\n"
            "    return prompt + new if cached else sum(prompt + made for made in range(new))\n",
            "nobody asks what follows it",
        ),
        WrongAnswer(
            "forgets the prompt",
            "def rows_computed(prompt, new, cached):\n"
            "    return new if cached else sum(prompt + made for made in range(new))\n",
            "has to go through the model once",
        ),
        WrongAnswer(
            "computes only the prompt again in each step",
            "def rows_computed(prompt, new, cached):\n    return prompt + new - 1 if cached else new * prompt\n",
            "the tokens that were made before it",
        ),
        WrongAnswer(
            "counts the text after each step",
            "def rows_computed(prompt, new, cached):\n"
            "    if cached:\n        return prompt + new - 1\n"
            "    return sum(prompt + made + 1 for made in range(new))\n",
            "comes out of the prompt alone",
        ),
    ),
    hints=(
        "Write down what goes in for prompt=3, new=2. The first new token needs the prompt only.",
        "Without a cache, step number k (from 0) puts in prompt + k tokens.",
        "With a cache: the prompt, and every new token but the last.",
    ),
    check=_check_rows,
    minutes=8,
)

# --- 07-3 -----------------------------------------------------------------------------------------

_TEXTS: tuple[tuple[bytes, ...], ...] = (
    (b"a",),
    (b"a", b"b"),
    (b"\xc3", b"\xa9"),
    (b"\xc3\xa9\xc3", b"\xa9"),
    (b"x\xe6", b"\x96\xad", b"y"),
    (b"\xf0\x9f", b"\x90", b"\x8c"),
    (b"ok", b"\xf0\x9f", b"\x90\x8c\xe6", b"\xa7\xbd!"),
    (b"a", b"\xe6\x96"),
    (b"\xff", b"a"),
)


def _check_pieces(names: Mapping[str, Any]) -> Verdict:
    """Characters whole, split in two and in three, and texts that end or break inside a character."""
    for tokens in _TEXTS:
        given = call(names["pieces"], list(tokens))
        problem = _pieces_problem(given, tokens)
        if problem:
            return wrong(problem, f"pieces({list(tokens)!r}) gives {given!r}")
    return passed()


def _pieces_problem(given: object, tokens: tuple[bytes, ...]) -> str | None:
    if not isinstance(given, list) or not all(isinstance(piece, str) for piece in given):
        return "it must return a list of strings"
    if len(given) != len(tokens):
        return "there must be one piece for each token; an empty one when there is nothing to send yet"
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    expected = [decoder.decode(token, i == len(tokens) - 1) for i, token in enumerate(tokens)]
    if given == expected:
        return None
    if "".join(given) == "".join(expected):
        return "a character was held back although it was complete"
    if "".join(given).count("\ufffd") > "".join(expected).count("\ufffd"):
        return "half a character was sent: the rest of it is in the next token"
    return "bytes were lost: what can never become a character must show as U+FFFD"


PIECES = Exercise(
    id="07-3",
    title="Never half a character",
    names=("pieces",),
    stub='''\
def pieces(tokens):
    """The text to send after each token, never half a character.

    tokens is a list of bytes objects, one a token; a character may be split between them.
    Returns one string for each token: all characters that are complete by now and were not sent before.
    Bytes that cannot become a character show as "\\ufffd"; so do those left over after the last token.

    The codecs module of Python has a decoder that remembers. About five lines.
    """
    raise NotImplementedError
''',
    solution="""\
def pieces(tokens):
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return [decoder.decode(token, i == len(tokens) - 1) for i, token in enumerate(tokens)]
""",
    wrong=(
        WrongAnswer(
            "decodes each token for itself",
            'def pieces(tokens):\n    return [token.decode("utf-8", "replace") for token in tokens]\n',
            "half a character was sent",
        ),
        WrongAnswer(
            "leaves out what it cannot decode",
            'def pieces(tokens):\n    return [token.decode("utf-8", "ignore") for token in tokens]\n',
            "bytes were lost",
        ),
        WrongAnswer(
            "waits for the end of the text",
            "def pieces(tokens):\n"
            '    return [""] * (len(tokens) - 1) + [b"".join(tokens).decode("utf-8", "replace")]\n',
            "held back although it was complete",
        ),
        WrongAnswer(
            "never finishes the decoder",
            "def pieces(tokens):\n"
            "    import codecs\n"
            '    decoder = codecs.getincrementaldecoder("utf-8")("replace")\n'
            "    return [decoder.decode(token) for token in tokens]\n",
            "bytes were lost",
        ),
    ),
    hints=(
        "é is the two bytes C3 A9. If C3 comes alone, nothing can be sent yet.",
        'codecs.getincrementaldecoder("utf-8")("replace") makes a decoder; it keeps an unfinished character for later.',
        "decode(token, final=True) at the last token tells it that nothing more will come.",
    ),
    check=_check_pieces,
    minutes=8,
)

# --- 07-4 -----------------------------------------------------------------------------------------


def _check_after_cancel(names: Mapping[str, Any]) -> Verdict:
    """Cancels before, inside, between and after steps."""
    for ends in ((10,), (10, 20), (10, 20, 50), (5, 7, 30)):
        for cancel in sorted({0, 1, *ends, *(end - 1 for end in ends), ends[-1] + 4}):
            given = call(names["after_cancel"], list(ends), cancel)
            problem = _cancel_problem(given, ends, cancel)
            if problem:
                return wrong(problem, f"after_cancel({list(ends)}, {cancel}) gives {given!r}")
    return passed()


def _cancel_problem(given: object, ends: tuple[int, ...], cancel: int) -> str | None:
    kept = sum(end <= cancel for end in ends)
    running = kept < len(ends) and cancel > (ends[kept - 1] if kept else 0)
    expected = (kept, int(running), ends[kept] if running else cancel)
    if not (isinstance(given, tuple) and len(given) == 3):
        return "it must return three numbers: kept, discarded, free_at"
    if given == expected:
        return None
    if running and given[:2] == (kept, 0):
        return "the step that runs cannot be recalled: it makes its token, and nobody wants it"
    if running and given[0] == kept + 1:
        return "a token that comes after the cancel is discarded, not sent"
    if not running and given[1]:
        return "at the end of a step nothing runs: the next step is not started"
    if given[:2] == expected[:2]:
        return "the slot is free when the running step ends, or at once when none runs"
    return f"it should be {expected}"


AFTER_CANCEL = Exercise(
    id="07-4",
    title="What a cancel cannot stop",
    names=("after_cancel",),
    stub='''\
def after_cancel(ends, cancel):
    """What one sequence gets when it is cancelled: (kept, discarded, free_at).

    ends    when each step ends, rising; the first starts at 0, each next one when the one before ends;
            a step makes its token at its end
    cancel  when the cancel arrives; at the very end of a step, that step's token is still kept

    kept       tokens made by then
    discarded  tokens made afterwards by the step that was already running (a cancel at 0 comes before the first)
    free_at    when the slot is free: at once if no step runs

    About six lines.
    """
    raise NotImplementedError
''',
    solution="""\
def after_cancel(ends, cancel):
    kept = sum(end <= cancel for end in ends)
    started = ends[kept - 1] if kept else 0
    if kept < len(ends) and cancel > started:
        return kept, 1, ends[kept]
    return kept, 0, cancel
""",
    wrong=(
        WrongAnswer(
            "stops the running step",
            "def after_cancel(ends, cancel):\n    return sum(end <= cancel for end in ends), 0, cancel\n",
            "cannot be recalled",
        ),
        WrongAnswer(
            "sends the token of the running step",
            "def after_cancel(ends, cancel):\n"
            "    kept = sum(end <= cancel for end in ends)\n"
            "    started = ends[kept - 1] if kept else 0\n"
            "    if kept < len(ends) and cancel > started:\n"
            "        return kept + 1, 0, ends[kept]\n"
            "    return kept, 0, cancel\n",
            "discarded, not sent",
        ),
        WrongAnswer(
            "starts one more step at a boundary",
            "def after_cancel(ends, cancel):\n"
            "    kept = sum(end <= cancel for end in ends)\n"
            "    return (kept, 1, ends[kept]) if kept < len(ends) else (kept, 0, cancel)\n",
            "the next step is not started",
        ),
        WrongAnswer(
            "gives the slot away while the step still runs",
            "def after_cancel(ends, cancel):\n"
            "    kept = sum(end <= cancel for end in ends)\n"
            "    started = ends[kept - 1] if kept else 0\n"
            "    return kept, int(kept < len(ends) and cancel > started), cancel\n",
            "the slot is free when the running step ends",
        ),
    ),
    hints=(
        "Draw the steps on a line. Is the cancel inside one, or on a boundary?",
        "Count the ends that are not later than the cancel: those tokens are kept.",
        "A step is running if there is a next one and the cancel is later than its start.",
    ),
    check=_check_after_cancel,
    minutes=10,
)

__all__ = ["EXERCISES", "QUIZ"]
EXERCISES = (KV_BYTES, ROWS_COMPUTED, PIECES, AFTER_CANCEL)
