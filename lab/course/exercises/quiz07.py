"""The quiz of chapter 07: a tiny LM on the GPU."""

from __future__ import annotations

from lab.course.exercise import Option, Question

QUIZ = (
    Question(
        "07-q1",
        "A prompt of 256 tokens takes one step. 256 new tokens take 256 steps. Which costs more time?",
        (
            Option(
                "The same: 256 tokens go through the model either way",
                "the sums are nearly the same, the time is not: each step reads all weights and pays for its start",
            ),
            Option(
                "The new tokens",
                "yes: each step reads every weight for one row, where prefill shares the reading among 256",
                right=True,
            ),
            Option(
                "The prompt, because attention looks at all of it",
                "the new tokens look at all of it too, and at each other",
            ),
        ),
    ),
    Question(
        "07-q2",
        "A model with 4 query heads gets 2 key/value heads instead of 4. What becomes smaller?",
        (
            Option(
                "The KV cache, by half",
                "yes: only keys and values are kept, and two query heads share each",
                right=True,
            ),
            Option("The number of steps", "one step still makes one token a row"),
            Option(
                "The text that fits into the context",
                "the context is a number of positions; it stays the same",
            ),
        ),
    ),
    Question(
        "07-q3",
        "Eight rows are decoded in one step instead of one. How much longer does the step take?",
        (
            Option("Eight times as long", "then batching would gain nothing; measure it above"),
            Option(
                "Less than eight times: the weights are read once for all rows",
                "yes: that is why servers batch, and why one slow step holds up eight readers",
                right=True,
            ),
            Option(
                "Not longer at all",
                "on a large GPU almost; but each row brings its own cache to read and its own sums",
            ),
        ),
    ),
    Question(
        "07-q4",
        "A client cancels while a step is running. What happens to the step?",
        (
            Option(
                "It is interrupted and its memory is freed",
                "nothing in it looks at a flag; other rows need its result",
            ),
            Option(
                "It runs to its end; the token of this client is thrown away",
                "yes: the cancel takes effect between steps, so a step's length bounds the delay",
                right=True,
            ),
            Option("It is run again for the other clients", "they get their tokens from this step as usual"),
        ),
    ),
    Question(
        "07-q5",
        "The last token of a text holds two of the four bytes of an emoji. What should a server send?",
        (
            Option("The two bytes; the browser will wait", "JSON text cannot carry half a character"),
            Option(
                "Nothing for those bytes while the text goes on",
                "right while tokens may follow; but this was the last",
            ),
            Option(
                "One U+FFFD at the end of the text",
                "yes: nothing can complete it any more, and bytes should not vanish in silence",
                right=True,
            ),
        ),
    ),
)
