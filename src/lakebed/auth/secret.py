"""`Secret`: the secret of an access key, in the clear, for as long as somebody needs it to check a signature.

Whoever derives something from it that is worth keeping keeps it in `derived`, so that it
is forgotten together with the secret, and the owner of the memory is the authenticator
alone. Its repr shows nothing.
"""

from lakebed.auth.caller import Caller


class Secret:
    """The text of a secret, what was derived from it, and whether somebody has signed with it."""

    __slots__ = ("derived", "is_proven", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.derived: dict[str, bytes] = {}
        self.is_proven = False


class Signer:
    """The owner of an access key, and the secret that signs on their behalf."""

    __slots__ = ("caller", "secret")

    def __init__(self, caller: Caller, secret: Secret) -> None:
        self.caller = caller
        self.secret = secret
