"""The quiz of chapter 10: streaming over SSE."""

from __future__ import annotations

from lab.course.exercise import Option, Question

QUIZ = (
    Question(
        "10-q1",
        "The server's record says: 900 tokens sent, ending length. What do you know of the reader?",
        (
            Option(
                "It has read 900 tokens", "this chapter showed such a record for a reader that read no byte"
            ),
            Option(
                "Nothing but that its buffers took them",
                "yes: sent means that the server's own send returned; only the reader knows what was delivered",
                right=True,
            ),
            Option(
                "It has read at least the first", "the status and the first token may lie in a buffer too"
            ),
        ),
    ),
    Question(
        "10-q2",
        "Your send queue holds at most 16 events. A reader stops. How many tokens are made for it at most?",
        (
            Option("16", "that is what waits in the queue; the sockets behind it take events as well"),
            Option(
                "16 and what the sockets hold",
                "yes: with untouched sockets thousands of events, with small ones some dozens",
                right=True,
            ),
            Option("As many as the answer has", "only without a bound, or where the sockets take all of it"),
        ),
    ),
    Question(
        "10-q3",
        "The deadline falls when 40 tokens have been sent. What does the client get?",
        (
            Option("HTTP status 504", "the status is the first line of the response, and it was 200"),
            Option(
                "An error event, then [DONE]",
                "yes: after the first byte the only place left for the truth is inside the stream",
                right=True,
            ),
            Option(
                "The connection just closes",
                "then a deadline would look like a broken network, and a client would try again",
            ),
        ),
    ),
    Question(
        "10-q4",
        "A chunk from the network holds `data: {...}` and half of the next event. Whose mistake is that?",
        (
            Option(
                "Nobody's: TCP carries bytes, not events",
                "yes: the blank line ends an event, and nothing else does",
                right=True,
            ),
            Option(
                "The server's: it must send one event at a time",
                "it may, and the network still cuts as it likes",
            ),
            Option(
                "The proxy's: it must forward whole events", "a proxy need not know that these are events"
            ),
        ),
    ),
    Question(
        "10-q5",
        "A client sees 200 after 2 ms and its first text after 2 s. What is slow?",
        (
            Option("The model", "perhaps; a proxy that holds back the first bytes looks exactly the same"),
            Option("A proxy that buffers", "perhaps; a long prompt or a queue looks exactly the same"),
            Option(
                "These two times cannot say: take them at the server and behind each hop",
                "yes: the 200 shows only that somebody committed early; compare the first text on both sides",
                right=True,
            ),
        ),
    ),
)
