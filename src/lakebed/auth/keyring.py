"""What the installation's key is used for: one derived key for each purpose.

    secrets   AES-256-GCM over the secrets of access keys at rest
    tokens    HMAC under session tokens
    check     shows that a process was given the key that the installation was set up with

A sealed secret is `nonce (12) | ciphertext | tag (16)`; the tag also covers the access
key id and its owner, so that a sealed secret moved to another record does not open.
The key itself never leaves this object, and nothing here shows one in its repr.
"""

import hmac
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from lakebed.auth.chance import random_bytes
from lakebed.env.ids import IdSource
from lakebed.errors import CorruptError, ErrorKind, InvalidInputError
from lakebed.model.auth import AccessKey, AccessKeyId, Incarnation

KEY_BYTES_MIN: Final = 16
_NONCE_BYTES: Final = 12


class Keyring:
    """The keys that are derived from the installation's key."""

    def __init__(self, key: bytes, *, ids: IdSource) -> None:
        """Take the installation's key.

        Raises:
            InvalidInputError: `INVALID_CONFIG`: the key is too short.
        """
        if len(key) < KEY_BYTES_MIN:
            raise InvalidInputError(
                ErrorKind.INVALID_CONFIG,
                f"the installation's key has {len(key)} bytes, at least {KEY_BYTES_MIN} are needed",
            )
        self._ids = ids
        self._secrets = AESGCM(_derive(key, "secrets", 32))
        self.token_key = _derive(key, "tokens", 64)
        self.check = _derive(key, "check", 16)

    def seal(self, secret: str, access_key: AccessKeyId, owner: Incarnation) -> bytes:
        """Return a secret encrypted for one access key of one owner."""
        nonce = random_bytes(self._ids, _NONCE_BYTES)
        return nonce + self._secrets.encrypt(nonce, secret.encode(), _context(access_key, owner))

    def opens(self, key: AccessKey, secret: str) -> bool:
        """Return whether `secret` is that of `key`."""
        return hmac.compare_digest(self._unseal(key), secret.encode("utf-8", "surrogatepass"))

    def reveal(self, key: AccessKey) -> str:
        """Return the secret of `key`, to check what was signed with it."""
        return self._unseal(key).decode()

    def _unseal(self, key: AccessKey) -> bytes:
        nonce, sealed = key.sealed_secret[:_NONCE_BYTES], key.sealed_secret[_NONCE_BYTES:]
        try:
            return self._secrets.decrypt(nonce, sealed, _context(key.id, key.incarnation))
        except (InvalidTag, ValueError) as error:
            raise CorruptError(
                ErrorKind.UNREADABLE,
                "the secret of an access key does not open: is this the key the installation was set up with?",
            ) from error


def _derive(key: bytes, purpose: str, size: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=size, salt=None, info=f"lakebed {purpose} 1".encode()).derive(key)


def _context(access_key: AccessKeyId, owner: Incarnation) -> bytes:
    return f"{access_key}\0{owner}".encode()
