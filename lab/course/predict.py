"""Predict first, then run: a prediction is stored before the actual value is shown."""

from __future__ import annotations

from lab.course.errors import CourseError, PredictionMissing
from lab.course.verdict import one_line

_predictions: dict[str, object] = {}


def predict(key: str, value: object) -> None:
    """Store your prediction under `key`. Predicting again replaces it, until it was revealed.

    Example: predict("tokens sent", 4)

    :raises CourseError: None is not a prediction
    """
    if value is None:
        raise CourseError(f"predict({key!r}, ...) needs a value")
    _predictions[key] = value
    print(f"Prediction stored for {key}: {one_line(str(value))}")


def reveal(key: str, actual: object) -> None:
    """Print what happened beside what you predicted, and how far off that was.

    Example: reveal("tokens sent", run.sent)

    :raises PredictionMissing: nothing was predicted under `key`
    """
    if key not in _predictions:
        raise PredictionMissing(f"predict first: predict({key!r}, your_value)")
    predicted = _predictions[key]
    shown = one_line(str(actual))
    print(f"{key}: predicted {one_line(str(predicted))}, actual {shown}, {_distance(predicted, actual)}")


def _distance(predicted: object, actual: object) -> str:
    """How far off, in words: a difference for numbers, and a factor where that says more."""
    if predicted == actual:
        return "right"
    numbers = [
        value
        for value in (predicted, actual)
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if len(numbers) < 2:
        return "different"
    guess, truth = numbers
    text = f"off by {abs(guess - truth):g}"
    if guess * truth > 0:
        factor = max(guess / truth, truth / guess)
        text += f" (a factor of {factor:.3g})" if factor >= 2 else ""
    return text
