"""What is logged of a bug: where it happened, and the classes of the errors.

Not what the errors say, nor any variable, because there is no telling what a bug had in its hands: a secret, or a user's data.
"""

import traceback


def failure_fields(error: BaseException) -> dict[str, str]:
    """Return the fields of a log line about an error that nobody expected."""
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__)).format()
    return {"error": _classes(error), "traceback": "".join(frames)}


def _classes(error: BaseException) -> str:
    """Return the class of the error and of those that it came from, newest first."""
    name, cause = type(error).__qualname__, error.__cause__ or error.__context__
    return f"{name} from {_classes(cause)}" if cause is not None else name
