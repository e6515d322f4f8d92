"""Changing the links of a user or group: a group joined, a policy attached."""

from lakebed.errors import AlreadyExistsError, ErrorKind, InvalidInputError, NotFoundError
from lakebed.limits import AUTH_LINKS_MAX
from lakebed.model.auth import Link


def with_link(links: tuple[Link, ...], link: Link, *, exists: ErrorKind, message: str) -> tuple[Link, ...]:
    """Return `links` with one more; one to an earlier thing of the same name goes.

    Raises:
        AlreadyExistsError: of kind `exists`, with that message: it is there already.
        InvalidInputError: `TOO_LARGE`.
    """
    if link in links:
        raise AlreadyExistsError(exists, message)
    if len(links) >= AUTH_LINKS_MAX:
        raise InvalidInputError(
            ErrorKind.TOO_LARGE, f"at most {AUTH_LINKS_MAX} are possible: remove some first"
        )
    return (*(each for each in links if each.id != link.id), link)


def without_link(
    links: tuple[Link, ...], link: Link, *, missing: ErrorKind, message: str
) -> tuple[Link, ...]:
    """Return `links` without one.

    Raises:
        NotFoundError: of kind `missing`, with that message: it is not there.
    """
    if link not in links:
        raise NotFoundError(missing, message)
    return tuple(each for each in links if each.id != link.id)
