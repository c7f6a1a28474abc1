"""Generated request bodies against a server: the claims, computed from what was recorded of each body.

The bodies are made and sent by `tests/server/test_body_fuzz.py`; ``python -m pytest -m soak`` on it records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

VALID = "valid"


def claims(
    answers: Mapping[str, Sequence[str]], open_requests: int, slots: int, slots_free: int, records: int
) -> dict[str, Any]:
    """A recipe for evidence: how many bodies got what they should, and what was left afterwards.

    :param answers: how a body was made (`valid`, or what is wrong with it) -> for each such body the status,
        and for a valid one behind it what its text was: `right`, `tie` (as the engine alone gives it up to a token
        whose two best logits are too close to call) or `wrong`
    :param open_requests: requests that the server still knew of at the end
    :param slots: rows of the engine, of which `slots_free` were free at the end
    :param records: records that the server made
    """
    statuses = Counter(int(answer.split()[0]) for made in answers.values() for answer in made)
    texts = Counter(answer.split()[1] for answer in answers[VALID] if answer.startswith("200 "))
    refused = [int(answer.split()[0]) for kind, made in answers.items() if kind != VALID for answer in made]
    bodies = statuses.total()
    return {
        "bodies": bodies,
        "valid": len(answers[VALID]),
        "valid_with_200_and_their_text": texts["right"] + texts["tie"],
        "of_these_ties": texts["tie"],
        "invalid": len(refused),
        "invalid_with_4xx": sum(400 <= status < 500 for status in refused),
        "answers_5xx": sum(count for status, count in statuses.items() if status >= 500),
        "statuses": {str(status): statuses[status] for status in sorted(statuses)},
        "leaked_requests": open_requests,
        "slots_not_free": slots - slots_free,
        "one_record_each": records == bodies,
    }
