"""Text without secrets: the last look at what leaves the machine.

Nothing that is put into a bundle should hold a secret in the first place. This catches
what did anyway: the secrets that this installation is known to have, and what looks like
one in a line that somebody else wrote.
"""

import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "***"

# Shorter texts are no secrets, and would be found everywhere.
_LENGTH_MIN: Final = 6

_LOOKS_SECRET: Final = re.compile(
    r"""(?ix)
    ( (?: secret | password | passwd | authorization | session[_-]?token | x-amz-security-token
        | x-amz-signature | installation[_-]?key )
      [a-z_-]* ["']? \s* [=:] \s* ["']? (?: (?: basic | bearer ) \s+ )? )
    [^\s"'&,;}]+
    """
)
_CREDENTIALS: Final = re.compile(r"(?i)\b(basic|bearer)\s+[A-Za-z0-9+/._=-]{8,}")
_URL_PASSWORD: Final = re.compile(r"(://[^\s:/@]*:)[^\s@/]+@")


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with every one of `secrets`, and whatever looks like a secret, hidden."""
    for secret in sorted({each for each in secrets if len(each) >= _LENGTH_MIN}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = _LOOKS_SECRET.sub(rf"\1{HIDDEN}", text)
    text = _CREDENTIALS.sub(rf"\1 {HIDDEN}", text)
    return _URL_PASSWORD.sub(rf"\1{HIDDEN}@", text)
