"""`lakebed repo adopt` and `lakebed repo orphans`: a repository whose database is lost."""

from typing import Annotated

import typer
from rich.console import Console

from lakebed.cli.arguments import RepoArgument
from lakebed.cli.output import (
    JsonOption,
    LimitOption,
    YesOption,
    confirm,
    print_json,
    print_json_list,
    print_table,
    say,
    size,
)
from lakebed.cli.refs import read_manifest
from lakebed.client.client import Client
from lakebed.client.replies import AdoptionResult
from lakebed.client.uri import parse_repo
from lakebed.model.words import counted

_LOST = (
    "uncommitted changes and stashes",
    "commits, branches and tags made after the dump",
    "branch protection, retention rules and metadata of the repository: set them again",
)


def adopt(
    storage: Annotated[
        str,
        typer.Argument(
            metavar="STORAGE",
            help="Where the repository lies, such as s3://bucket/prefix.",
            show_default=False,
        ),
    ],
    *,
    name: Annotated[
        str, typer.Option(help="What the repository is called here; its old name by default.")
    ] = "",
    dump: Annotated[
        str,
        typer.Option(
            help="Another refs dump than the newest: UID/GENERATION-NUMBER below _lakebed/refs/, or the manifest of "
            "`lakebed refs dump` or a file with it (then --name is needed)."
        ),
    ] = "",
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Take over a repository whose database is lost, from the refs dumps in its storage.

    Stop the old servers first, or revoke their credentials: only that is certain. They are fenced off, and turn
    read-only within a minute. If the command is interrupted, run it again: it goes on.

    Example: lakebed repo adopt s3://bucket/shop
    """
    confirm(
        f"Take {storage} over? Its old installation, if there still is one, can only read it from then on.",
        yes=yes,
    )
    is_automatic = bool(dump) and not dump.lstrip().startswith("{") and _looks_like_a_name(dump)
    manifest = read_manifest(dump) if dump and not is_automatic else None
    with Client() as client, Console(stderr=True).status("adopting …") as status:
        adoption = client.adopt(storage, name=name, dump=dump if is_automatic else "", manifest=manifest)
        done = adoption.wait(
            on_progress=lambda count: status.update(f"adopting … {count} files and objects looked at")
        )
    if json:
        print_json(done)
    else:
        _tell(done)
    if done.lost_refs or done.missing:
        raise typer.Exit(1)


def orphans(repo: RepoArgument, *, limit: LimitOption = 1000, json: JsonOption = False) -> None:
    """List the objects that nothing referred to when a repository was adopted, newest first.

    Garbage collection leaves them alone for seven days. The path is known of what was staged in a segment.
    """
    with Client() as client:
        found = client.repo(parse_repo(repo)).orphans(limit=limit)
        if json:
            print_json_list(found)
            return
        rows = (
            (each.address, size(each.size_bytes), each.mtime.strftime("%Y-%m-%d %H:%M:%S"), each.path)
            for each in found
        )
        print_table(
            ("address", "size", "written (UTC)", "staged at"), rows, empty="Something refers to every object."
        )


def _looks_like_a_name(dump: str) -> bool:
    uid, separator, number = dump.partition("/")
    return bool(uid and separator) and number.replace("-", "").isdecimal()


def _tell(done: AdoptionResult) -> None:
    lost = len(done.lost_refs)
    say(
        "repository {} has {} again: {}, and {} of {} branches and tags, as {}",
        done.repository,
        done.storage_namespace,
        counted(done.commits, "commit"),
        done.branches + done.tags - lost,
        done.branches + done.tags,
        f"of {done.dumped_at:%Y-%m-%d %H:%M:%S} UTC" if done.dumped_at else f"dump {done.dump} has them",
    )
    say("Not back: {}.", "; ".join(_LOST))
    if done.expired_commits:
        say("Expired commits: {}. Garbage collection was deleting their objects.", done.expired_commits)
    if lost:
        rows = ((ref.kind, ref.name, ref.commit_id[:12], ref.reason) for ref in done.lost_refs)
        print_table(("not restored", "name", "commit", "why"), rows, empty="")
    if done.missing:
        missing = ((each.where, each.what) for each in done.missing_listed)
        print_table(("where", "missing"), missing, empty="")
        say("Missing files and objects: {}. Restore them from a backup of the storage.", done.missing)
    if done.orphans:
        say(
            "Nothing refers to {} ({}), uncommitted ones among them: `lakebed repo orphans {}` lists them. "
            "Garbage collection may take them from {} on.",
            counted(done.orphans, "object"),
            size(done.orphan_bytes),
            done.repository,
            f"{done.gc_not_before:%Y-%m-%d}",
        )
