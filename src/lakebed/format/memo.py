"""`memo`: remember what a pure function said of a text that a client sent.

`functools.lru_cache` bounds how many texts it keeps, not how long they are. A request's head has 64 KiB, so a thousand
of them would keep 64 MiB for each cache, without credentials and for ever. Long texts are therefore computed each time.

What is remembered is a dictionary, and to ask it takes no step in Python: some are asked several times for each request.
When it is full, the text that has been there for the longest time goes.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from lakebed.limits import MEMO_ITEMS_MAX, MEMO_TEXT_LENGTH_MAX

_Text = TypeVar("_Text", str, bytes)
_Key = TypeVar("_Key", bound=str | bytes)
_Answer = TypeVar("_Answer")


def memo(function: Callable[[_Text], _Answer]) -> Callable[[_Text], _Answer]:
    """Return `function` with a memory for short texts; errors are not remembered."""
    return _Remembered(function).__getitem__


class _Remembered(dict[_Key, _Answer], Generic[_Key, _Answer]):
    """Answers by text; those that are missing are computed."""

    def __init__(self, function: Callable[[_Key], _Answer]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, text: _Key) -> _Answer:
        answer = self._function(text)
        if len(text) <= MEMO_TEXT_LENGTH_MAX:
            if len(self) >= MEMO_ITEMS_MAX:
                del self[next(iter(self))]
            self[text] = answer
        return answer
