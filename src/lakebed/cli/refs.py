"""`lakebed refs`: dump and restore all branches, tags and commits of a repository."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from lakebed.cli.arguments import RepoArgument
from lakebed.cli.output import JsonOption, print_json, print_table, say
from lakebed.client.client import Client
from lakebed.client.replies import RefsManifest
from lakebed.client.uri import parse_repo
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.model.words import counted

app = typer.Typer(
    help="Dump all branches, tags and commits of a repository, and restore them.", no_args_is_help=True
)


@app.command()
def dump(
    repo: RepoArgument,
    *,
    to: Annotated[
        Path | None, typer.Option(help="Write the manifest into this file.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write branches, tags and commits into the repository's namespace; print the manifest, which restore takes.

    Uncommitted changes and stashes are not dumped.

    Example: lakebed refs dump lakebed://shop --to shop.json
    """
    name = parse_repo(repo)
    with Client() as client, Console(stderr=True).status("dumping …") as status:
        manifest = client.repo(name).refs.dump(
            on_progress=lambda commits: status.update(f"dumping … {commits} commits")
        )
    if to is not None:
        to.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    if to is None or json:
        print_json(manifest)
    else:
        say("dumped the refs of {}; the manifest is in {}", name, to)


@app.command()
def restore(
    repo: RepoArgument,
    manifest: Annotated[
        str,
        typer.Argument(
            metavar="MANIFEST|FILE", help="What `refs dump` printed, or a file with it.", show_default=False
        ),
    ],
    *,
    force: Annotated[bool, typer.Option(help="Restore into a read-only repository too.")] = False,
    json: JsonOption = False,
) -> None:
    """Bring the refs of a dump back into a bare repository in the dump's namespace.

    Refs that cannot come back are listed, and the command ends with 1. Run it again to go on after a
    failure. After the loss of a database, use `lakebed repo adopt` instead.

    Example: lakebed refs restore lakebed://shop shop.json
    """
    name, parsed = parse_repo(repo), read_manifest(manifest)
    with Client() as client, Console(stderr=True).status("restoring …") as status:
        done = client.repo(name).refs.restore(
            parsed,
            force=force,
            on_progress=lambda commits: status.update(f"restoring … {commits} commits"),
        )
    if json:
        print_json(done)
    else:
        say(
            "restored {}, {} and {} into {}",
            counted(done.branches - sum(ref.kind == "branch" for ref in done.unrestored), "branch"),
            counted(done.tags - sum(ref.kind == "tag" for ref in done.unrestored), "tag"),
            counted(done.commits, "commit"),
            name,
        )
        if done.unrestored:
            rows = ((ref.kind, ref.name, ref.commit_id[:12], ref.reason) for ref in done.unrestored)
            print_table(("not restored", "name", "commit", "why"), rows, empty="")
    if done.unrestored:
        raise typer.Exit(1)


def read_manifest(text: str) -> RefsManifest:
    """Return the manifest that an argument is, or that the file it names holds."""
    data = text.encode()
    if not text.lstrip().startswith("{"):
        try:
            data = Path(text).read_bytes()
        except OSError as error:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, f"manifest {text} cannot be read: {error.strerror}"
            ) from error
    try:
        return msgspec.json.decode(data, type=RefsManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT, f"this is no manifest of a dump: {error}"
        ) from error
