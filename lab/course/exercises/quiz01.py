"""The quiz of chapter 01: one slow client."""

from __future__ import annotations

from lab.course.exercise import Option, Question

QUIZ = (
    Question(
        "01-q1",
        "The bounded queue generated two tokens fewer and sent the same. Why the same?",
        (
            Option(
                "Its reader took at most one token a tick, and one was always waiting",
                "yes: after each tick something waits, so a reader that takes one never finds the queue empty",
                right=True,
            ),
            Option(
                "A bounded queue always sends the same tokens",
                "a bursty reader finds fewer waiting: exercise 01-2 is the smallest example",
            ),
            Option(
                "The deadline came too early to see a difference",
                "with this reader no deadline makes one; the recorded sweep tries them all",
            ),
        ),
    ),
    Question(
        "01-q2",
        "The deadline and the client's cancel fall into the same tick. How often is the memory released?",
        (
            Option(
                "Twice: each signal cleans up after itself",
                "then the second frees what may be another's by now",
            ),
            Option(
                "Once, by the first; the second is counted and changes nothing",
                "yes: several signals may arrive, but there is exactly one ending",
                right=True,
            ),
            Option("Never: they cancel each other out", "that would be a leak, and cleanup_count shows 1"),
        ),
    ),
    Question(
        "01-q3",
        "A queue holds at most three tokens, and a token that finds it full is thrown away. Is that backpressure?",
        (
            Option(
                "Yes: the memory is bounded", "memory is, but the model works as much as before, for nobody"
            ),
            Option(
                "No: nothing tells the model to stop",
                "yes: it generated all seven tokens and the reader's text has holes",
                right=True,
            ),
        ),
    ),
    Question(
        "01-q4",
        "The writer of one socket blocks until its client reads. Does this alone limit what is generated?",
        (
            Option(
                "Yes: nothing can be sent, so nothing is generated",
                "the model does not look at the socket; its tokens pile up in front of the writer",
            ),
            Option(
                "No: the pressure must reach the scheduler",
                "yes: each stage needs a bound, and the last one leaves this request out of the step",
                right=True,
            ),
            Option(
                "Yes, if the engine's step waits for the writer",
                "then it waits for every client: policy block, and the neighbours pay",
            ),
        ),
    ),
    Question(
        "01-q5",
        "`assert owner.finish(reason)` cleans up in every test, and not in production. What is different there?",
        (
            Option(
                "Python runs with -O, which removes the whole statement",
                "yes: the call goes with the assert; a check must not do the work that it checks",
                right=True,
            ),
            Option("The optimiser inlines finish, so that it runs too late", "Python does no such thing"),
            Option(
                "More requests end in the same tick", "finish is one step, however many callers there are"
            ),
        ),
    ),
)
