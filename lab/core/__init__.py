"""Pure state machines and policies: the subject of the workbook.

Nothing here starts a thread, opens a socket, awaits, or reads a clock of its own. Time comes in as an
argument, bytes come in and go out as values, and every rule can be tested without waiting.
"""
