"""`lakebed config`."""

from lakebed.cli.output import JsonOption, print_fields, print_json
from lakebed.client.config import load_config


def config(*, json: JsonOption = False) -> None:
    """Show which server and which access key are used, and where each was found."""
    found = load_config()
    if json:
        print_json(
            {
                "endpoint": found.endpoint,
                "endpoint_source": found.endpoint_source,
                "access_key_id": found.access_key_id,
                "credentials_source": found.credentials_source,
            }
        )
        return
    print_fields(
        [
            ("server", f"{found.endpoint}  (from {found.endpoint_source})"),
            ("access key", f"{found.access_key_id}  (from {found.credentials_source})"),
            ("secret", "is set and not shown"),
        ]
    )
