"""Sessions that were ended before their tokens expired: which they are, and how the list stays short. Pure.

A token is good by its signature alone, so ending a session means to remember it until its token would have expired.
Each user has one record. When it would list too many, the sessions that were opened first are left out, and every
session of the user that was opened no later than those has ended as well.
"""

from lakebed.auth.tokens import Claims
from lakebed.env.clock import Instant
from lakebed.limits import ENDED_SESSIONS_MAX
from lakebed.model.auth import EndedSession, EndedSessions


def has_ended(claims: Claims, ended: EndedSessions | None) -> bool:
    """Return whether the session of a token was ended."""
    if ended is None or ended.incarnation != claims.incarnation:
        return False
    return claims.issued_at <= ended.issued_before or any(each.id == claims.id for each in ended.sessions)


def with_ended(ended: EndedSessions | None, claims: Claims, *, now: Instant) -> EndedSessions:
    """Return a user's ended sessions with one more, and without those whose tokens have expired."""
    if ended is None or ended.incarnation != claims.incarnation:
        ended = EndedSessions(incarnation=claims.incarnation)
    session = EndedSession(id=claims.id, issued_at=claims.issued_at, expires_at=claims.expires_at)
    listed = [each for each in ended.sessions if each.expires_at > now and each.id != session.id]
    listed = sorted([*listed, session], key=lambda each: each.issued_at)
    left_out = listed[:-ENDED_SESSIONS_MAX]
    return EndedSessions(
        incarnation=claims.incarnation,
        sessions=tuple(listed[-ENDED_SESSIONS_MAX:]),
        issued_before=max([ended.issued_before, *(each.issued_at for each in left_out)]),
    )
