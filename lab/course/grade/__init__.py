"""Grading a folder of submitted notebooks: `lab grade`.

submission (what the student wrote) → assemble (our notebook around it) → run (nbval, isolated in time)
→ verdict (the one end) → report. Student code is untrusted; this first version limits its time and
cleans up after it, and leaves checks outside the kernel and a sandbox to the places named for them.
"""

from lab.course.grade.batch import Chapter, Settings, grade_folder, load_chapters
from lab.course.grade.states import Grade, State

__all__ = ["Chapter", "Grade", "Settings", "State", "grade_folder", "load_chapters"]
