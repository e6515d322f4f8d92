"""`memo`: remember what a pure function said of a text that a client sent.

`functools.lru_cache` bounds how many texts it keeps, not how long they are. A request's head has 64 KiB, so a thousand
of them would keep 64 MiB for each cache, without credentials and for ever. Long texts are therefore computed each time.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

from lakebed.limits import MEMO_ITEMS_MAX, MEMO_TEXT_LENGTH_MAX

_Text = TypeVar("_Text", str, bytes)
_More = ParamSpec("_More")
_Answer = TypeVar("_Answer")


def memo(
    function: Callable[Concatenate[_Text, _More], _Answer],
) -> Callable[Concatenate[_Text, _More], _Answer]:
    """Return `function` with a memory for short texts; errors are not remembered."""
    remembered = lru_cache(maxsize=MEMO_ITEMS_MAX)(function)

    @wraps(function)
    def answer(text: _Text, /, *args: _More.args, **kwargs: _More.kwargs) -> _Answer:
        if len(text) > MEMO_TEXT_LENGTH_MAX:
            return function(text, *args, **kwargs)
        return remembered(text, *args, **kwargs)  # type: ignore[arg-type]

    return answer
