"""Random bytes, access key ids and secrets, from the one source of chance."""

import base64
import hashlib

from lakebed.env.ids import IdSource
from lakebed.model.auth import AccessKeyId

_TOKENS_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_KEYS_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_TO_KEYS = str.maketrans(_TOKENS_ALPHABET, _KEYS_ALPHABET)
_TOKEN_BITS = 100


def random_bytes(ids: IdSource, size: int) -> bytes:
    """Return `size` bytes (at most 64) that nobody can guess: tokens with at least as many random bits, hashed."""
    assert size <= 64
    tokens = -(-size * 8 // _TOKEN_BITS)
    return hashlib.sha512("".join(ids.token() for _ in range(tokens)).encode()).digest()[:size]


def new_access_key_id(ids: IdSource) -> AccessKeyId:
    """Return an access key id of the form that lakeFS gives out: `AKIAJ`, 14 of A-Z2-7 (70 random bits), `Q`."""
    return AccessKeyId(f"AKIAJ{ids.token()[-14:].translate(_TO_KEYS)}Q")


def new_secret(ids: IdSource) -> str:
    """Return the secret of an access key: 240 random bits in 40 characters of base64."""
    return base64.b64encode(random_bytes(ids, 30)).decode()
