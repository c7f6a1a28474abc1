"""What the chapters use: checks, hints, solutions, predictions, quizzes and the leak check."""

from lab.course.calls import call, call_async
from lab.course.check import check
from lab.course.exercise import Exercise, Option, Question, WrongAnswer
from lab.course.help import hint, solution
from lab.course.leaks import leak_check, setup
from lab.course.predict import predict, reveal
from lab.course.quiz import quiz
from lab.course.verdict import Outcome, Verdict, passed, unknown, wrong

__all__ = [
    "Exercise",
    "Option",
    "Outcome",
    "Question",
    "Verdict",
    "WrongAnswer",
    "call",
    "call_async",
    "check",
    "hint",
    "leak_check",
    "passed",
    "predict",
    "quiz",
    "reveal",
    "setup",
    "solution",
    "unknown",
    "wrong",
]
