"""What ends a command early: one line for stderr, and an exit code."""


class Failure(Exception):
    """It could not be done: exit code 1."""

    code = 1


class Usage(Failure):
    """It was asked for wrongly: exit code 2."""

    code = 2
