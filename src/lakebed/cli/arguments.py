"""Arguments that several commands take, and the completion of names as they are typed."""

from itertools import islice
from typing import Annotated, Final

import typer

from lakebed.client.client import Client
from lakebed.client.uri import Uri, parse_uri
from lakebed.errors import LakebedError

_SUGGESTIONS_MAX: Final = 50


def complete(incomplete: str) -> list[str]:
    """Return the names that a half-typed URI may become. A shell that gets no answer just completes nothing."""
    scheme = incomplete[: incomplete.index("://") + 3] if "://" in incomplete else ""
    rest = incomplete.removeprefix(scheme)
    try:
        with Client() as client:
            found = _names(client, rest)
    except LakebedError:
        return []
    return [scheme + name for name in found if name.startswith(rest)]


def _names(client: Client, typed: str) -> list[str]:
    if "/" not in typed:
        repos = client.repositories(prefix=typed, limit=_SUGGESTIONS_MAX)
        return [f"{repo.id}/" for repo in repos]
    uri = parse_uri(typed)
    repo = client.repo(uri.repo)
    if typed.count("/") == 1:
        branches = repo.branches(prefix=uri.ref, limit=_SUGGESTIONS_MAX)
        tags = repo.tags(prefix=uri.ref, limit=_SUGGESTIONS_MAX)
        return [f"{uri.repo}/{ref.id}" for refs in (branches, tags) for ref in refs]
    objects = repo.ref(uri.ref).objects(uri.path, delimiter="/")
    return [
        str(Uri(uri.repo, uri.ref, each.path)).partition("://")[2]
        for each in islice(objects, _SUGGESTIONS_MAX)
    ]


RepoArgument = Annotated[
    str,
    typer.Argument(
        metavar="lakebed://REPO", help="A repository.", autocompletion=complete, show_default=False
    ),
]
RefArgument = Annotated[
    str,
    typer.Argument(
        metavar="lakebed://REPO/REF",
        help="A branch, a tag, a commit, or an expression such as main~2.",
        autocompletion=complete,
        show_default=False,
    ),
]
BranchArgument = Annotated[
    str,
    typer.Argument(
        metavar="lakebed://REPO/BRANCH", help="A branch.", autocompletion=complete, show_default=False
    ),
]
TagArgument = Annotated[
    str,
    typer.Argument(metavar="lakebed://REPO/TAG", help="A tag.", autocompletion=complete, show_default=False),
]
PathArgument = Annotated[
    str,
    typer.Argument(
        metavar="lakebed://REPO/REF/PATH",
        help="An object at a ref; where that makes sense, a folder.",
        autocompletion=complete,
        show_default=False,
    ),
]
DestinationArgument = Annotated[
    str,
    typer.Argument(
        metavar="lakebed://REPO/BRANCH/PATH",
        help="Where to, on a branch; ending in a slash, a folder.",
        autocompletion=complete,
        show_default=False,
    ),
]
MessageOption = Annotated[
    str, typer.Option("--message", "-m", help="What was done, and why.", show_default=False)
]
MetadataOption = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="NAME=VALUE", help="Metadata of the commit; may be repeated."),
]
