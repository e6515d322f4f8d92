"""What the documentation says of roles and its example is true."""

import re
from pathlib import Path

import msgspec

from lakebed.auth.roles import USUAL_GROUPS
from lakebed.testing.asgi import basic
from lakebed.testing.rest import Rest

PAGE = (Path(__file__).parents[2] / "docs" / "users-and-permissions.md").read_text(encoding="utf-8")


def test_the_table_of_groups_is_the_one_that_is_set_up() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    assert {group: tuple(re.findall(r"`(\w+)`", policies)) for group, policies in rows} == USUAL_GROUPS


async def test_the_example_policy_does_what_it_says(rest: Rest) -> None:
    found = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    policy = msgspec.json.decode(found.group(1))
    await rest.lake.catalog.repositories.create("sales", "mem://sales")
    admin = rest.admin
    assert (await admin("POST", "/auth/policies", json=policy)).status == 201
    await admin("POST", "/auth/users", json={"id": "ada"})
    key = (await admin("POST", "/auth/users/ada/credentials")).json()
    await admin("PUT", f"/auth/users/ada/policies/{policy['id']}")
    ada = admin.as_user(basic(key["access_key_id"], key["secret_access_key"]))
    branch = "/repositories/sales/branches/main"
    statuses = [
        (await ada("POST", f"{branch}/objects", query={"path": path}, body=b"x")).status
        for path in ("reports/a", "private/a", "a")
    ]
    assert statuses == [201, 401, 401]
    assert (await ada("POST", f"{branch}/commits", json={"message": "m"})).status == 201
    read = "/repositories/sales/refs/main/objects"
    assert (await ada("GET", read, query={"path": "reports/a"})).status == 200
    assert (await ada("GET", read, query={"path": "private/a"})).message == "insufficient permissions"
