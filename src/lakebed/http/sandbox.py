"""Headers that keep a browser from running what is in an object with the server's origin. Pure.

Objects are served from the origin that has the login cookie, so a script in one could do what its reader may. The policy
makes a page of an object one of no origin, without scripts; the type is not guessed; and what a browser would run as a
document is downloaded instead.
"""

import re
from typing import Final

from lakebed.format.memo import memo
from lakebed.http.reply import Header, Headers

NO_SNIFF: Final[Header] = (b"x-content-type-options", b"nosniff")
SANDBOX: Final[Headers] = (NO_SNIFF, (b"content-security-policy", b"default-src 'none'; sandbox"))
ATTACHMENT: Final[Header] = (b"content-disposition", b"attachment")

# Documents with scripts in them: HTML, SVG and every other XML, which may be styled into HTML, and what contains documents.
_ACTIVE: Final = re.compile(rb"html|xml|svg|xsl|script|multipart/|message/|x-shockwave|x-mimearchive|related")


# Most objects have one of a few types.
@memo
def is_active(content_type: bytes) -> bool:
    """Return whether a browser that is led to an object of this type would run something in it.

    >>> is_active(b"Image/SVG+XML; charset=utf-8")
    True
    """
    return _ACTIVE.search(content_type.lower()) is not None
