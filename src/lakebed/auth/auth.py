"""`Auth`: everything about users and permissions, wired over one KV store.

Built cold: nothing is read before the first call.
"""

from dataclasses import dataclass

from lakebed.auth.acls import Acls
from lakebed.auth.attachments import Attachments
from lakebed.auth.authenticator import Authenticator
from lakebed.auth.credentials import Credentials
from lakebed.auth.groups import Groups
from lakebed.auth.keyring import Keyring
from lakebed.auth.policies import Policies
from lakebed.auth.records import AuthRecords
from lakebed.auth.setup import Setup
from lakebed.auth.tokens import Tokens
from lakebed.auth.users import Users
from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.kv.port import KVStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """The parts, one for each noun."""

    setup: Setup
    users: Users
    groups: Groups
    policies: Policies
    attachments: Attachments
    acls: Acls
    credentials: Credentials
    authenticator: Authenticator


def build_auth(kv: KVStore, *, key: bytes, clock: Clock, ids: IdSource) -> Auth:
    """Wire the parts. `key` is the installation's key, `ids` must be impossible to guess.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: the key is too short.
    """
    records = AuthRecords(kv, clock=clock, ids=ids)
    keyring = Keyring(key, ids=ids)
    credentials = Credentials(records, keyring, ids=ids)
    return Auth(
        setup=Setup(records, keyring, credentials, ids=ids),
        users=Users(records, ids=ids),
        groups=Groups(records, ids=ids),
        policies=Policies(records, ids=ids),
        attachments=Attachments(records),
        acls=Acls(records, ids=ids),
        credentials=credentials,
        authenticator=Authenticator(
            records, keyring, Tokens(keyring, clock=clock, ids=ids), clock=clock, ids=ids
        ),
    )
