"""`lakebed fs`: objects of a ref, as files."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lakebed.cli.arguments import DestinationArgument, PathArgument
from lakebed.cli.output import (
    JsonOption,
    console,
    moment,
    print_fields,
    print_json,
    print_json_list,
    say,
    size,
)
from lakebed.cli.progress import Tally, conclude, count_bar, tally_of, transfer_bar
from lakebed.client.client import Client
from lakebed.client.ref import Ref
from lakebed.client.replies import ObjectInfo
from lakebed.client.transfers import (
    copy_folder,
    download_file,
    download_folder,
    files_below,
    upload_folder,
)
from lakebed.client.uploads import UploadOptions
from lakebed.client.uri import Uri, parse_object
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError
from lakebed.limits import STREAM_CHUNK_BYTES
from lakebed.model.words import counted

app = typer.Typer(help="List, read, write, copy and delete objects.", no_args_is_help=True)

RecursiveOption = Annotated[
    bool, typer.Option("--recursive", "-r", help="A whole folder, several files at a time.")
]

PresignOption = Annotated[
    bool,
    typer.Option("--pre-sign", help="Move the bytes straight between here and the storage, by signed URLs."),
]


@app.command()
def ls(
    path: PathArgument,
    *,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Everything below it.")] = False,
    json: JsonOption = False,
) -> None:
    """List the objects of a ref or of a folder in it."""
    uri = parse_object(path, path_required=False)
    with Client() as client:
        found = _listing(client.repo(uri.repo).ref(uri.ref), uri.path, recursive=recursive)
        if json:
            print_json_list(found)
            return
        out = console()
        for each in found:
            if each.is_prefix:
                out.print(Text.assemble(f"{'':>10}  {'':19}  ", (each.path, "bold blue")), soft_wrap=True)
            else:
                out.print(
                    Text(f"{size(each.size_bytes):>10}  {moment(each.mtime)}  {each.path}"), soft_wrap=True
                )


@app.command()
def cat(path: PathArgument) -> None:
    """Print an object."""
    uri = parse_object(path)
    with Client() as client, client.repo(uri.repo).ref(uri.ref).open(uri.path) as file:
        while chunk := file.read(STREAM_CHUNK_BYTES):
            sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


@app.command()
def stat(path: PathArgument, *, json: JsonOption = False) -> None:
    """Show what is known of an object."""
    uri = parse_object(path)
    with Client() as client:
        info = client.repo(uri.repo).ref(uri.ref).stat(uri.path)
    if json:
        print_json(info)
        return
    fields = [
        ("path", info.path),
        ("size", f"{size(info.size_bytes)} ({info.size_bytes} bytes)"),
        ("checksum", info.checksum),
        ("modified", f"{moment(info.mtime)} UTC"),
        ("content type", info.content_type),
        ("address", info.physical_address),
    ]
    print_fields(fields + [(f"meta {name}", value) for name, value in (info.metadata or {}).items()])


@app.command()
def upload(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A local file or folder; - is standard input.",
            allow_dash=True,
            show_default=False,
        ),
    ],
    to: DestinationArgument,
    *,
    recursive: RecursiveOption = False,
    content_type: Annotated[
        str | None, typer.Option(help="The type of a single file; by its ending unless given.")
    ] = None,
    pre_sign: PresignOption = False,
    json: JsonOption = False,
) -> None:
    """Upload a file, or with -r a folder.

    What is there already with the same content is not sent again, so a command
    that was stopped is simply repeated.

    Example: lakebed fs upload -r ./prices lakebed://shop/main/prices/
    """
    uri = parse_object(to, path_required=not recursive)
    if recursive:
        conclude(_upload_folder(source, uri, presigned=pre_sign), verb="uploaded", json=json)
        return
    with Client() as client, transfer_bar() as bar:
        branch = client.repo(uri.repo).branch(uri.ref)
        options = UploadOptions(content_type=content_type)
        if str(source) == "-":
            info = branch.upload(uri.path, sys.stdin.buffer, options)
        else:
            _require_file(source)
            task = bar.add_task("uploading", total=source.stat().st_size)
            path = uri.path + source.name if uri.path.endswith("/") else uri.path
            send = branch.upload_presigned if pre_sign else branch.upload
            info = send(path, source, options, on_bytes=lambda count: bar.advance(task, count))
    if json:
        print_json(info)
    else:
        say("uploaded {} ({})", str(Uri(uri.repo, uri.ref, info.path)), size(info.size_bytes))


@app.command()
def download(
    path: PathArgument,
    to: Annotated[
        Path, typer.Argument(metavar="FILE", help="A local file or folder; the current folder unless given.")
    ] = Path(),
    *,
    recursive: RecursiveOption = False,
    pre_sign: PresignOption = False,
    json: JsonOption = False,
) -> None:
    """Download an object, or with -r a folder.

    What is there already with the same content is not fetched again, so a
    command that was stopped is simply repeated.

    Example: lakebed fs download -r lakebed://shop/v1/prices/ ./prices
    """
    uri = parse_object(path, path_required=not recursive)
    if recursive:
        conclude(_download_folder(uri, to, presigned=pre_sign), verb="downloaded", json=json)
        return
    with Client() as client, transfer_bar() as bar:
        ref = client.repo(uri.repo).ref(uri.ref)
        info = ref.stat(uri.path)
        file = to / uri.path.rpartition("/")[2] if to.is_dir() else to
        task = bar.add_task("downloading", total=info.size_bytes)
        download_file(ref, info, file, on_bytes=lambda count: bar.advance(task, count), presigned=pre_sign)
    if json:
        print_json(info)
    else:
        say("downloaded {} ({})", str(file), size(info.size_bytes))


@app.command()
def cp(
    source: PathArgument,
    to: DestinationArgument,
    *,
    recursive: RecursiveOption = False,
    json: JsonOption = False,
) -> None:
    """Copy an object, or with -r a folder, within a repository. No bytes move.

    What is there already with the same content is left as it is.

    Example: lakebed fs cp -r lakebed://shop/v1/prices/ lakebed://shop/main/old/
    """
    here, there = (
        parse_object(source, path_required=not recursive),
        parse_object(to, path_required=not recursive),
    )
    if here.repo != there.repo:
        raise InvalidInputError(
            ErrorKind.UNSUPPORTED, "copies stay within a repository: download, then upload to the other one"
        )
    if recursive:
        conclude(_copy_folder(here, there), verb="copied", json=json)
        return
    with Client() as client:
        path = there.path + here.path.rpartition("/")[2] if there.path.endswith("/") else there.path
        info = client.repo(there.repo).branch(there.ref).copy(here.path, path, source_ref=here.ref)
    print_json(info) if json else say("copied to {}", str(Uri(there.repo, there.ref, info.path)))


@app.command()
def rm(path: PathArgument, *, recursive: RecursiveOption = False, json: JsonOption = False) -> None:
    """Delete an object, or with -r a folder. Until it is committed, `lakebed branch reset` brings it back."""
    uri = parse_object(path, path_required=not recursive)
    with Client() as client, count_bar() as bar:
        branch = client.repo(uri.repo).branch(uri.ref)
        if recursive:
            paths = (each.path for each in branch.objects(_folder(uri.path)))
            count = branch.delete_objects(bar.track(paths, description="deleting"))
        else:
            branch.stat(uri.path)
            branch.delete_object(uri.path)
            count = 1
    print_json({"deleted": count}) if json else say("deleted {}", counted(count, "object"))


def _upload_folder(source: Path, uri: Uri, *, presigned: bool) -> Tally:
    _require_folder(source)
    with Client() as client, transfer_bar() as bar:
        branch = client.repo(uri.repo).branch(uri.ref)
        total = sum(file.stat().st_size for file in files_below(source))
        task = bar.add_task("uploading", total=total)
        outcomes = upload_folder(
            source,
            branch,
            _folder(uri.path),
            on_bytes=lambda count: bar.advance(task, count),
            presigned=presigned,
        )
        return tally_of(outcomes, bar)


def _copy_folder(here: Uri, there: Uri) -> Tally:
    with Client() as client, count_bar() as bar:
        repo = client.repo(here.repo)
        outcomes = copy_folder(
            repo.ref(here.ref), _folder(here.path), repo.branch(there.ref), _folder(there.path)
        )
        return tally_of(bar.track(outcomes, description="copying"), bar)


def _download_folder(uri: Uri, to: Path, *, presigned: bool) -> Tally:
    with Client() as client, transfer_bar() as bar:
        ref, prefix = client.repo(uri.repo).ref(uri.ref), _folder(uri.path)
        task = bar.add_task("downloading", total=sum(each.size_bytes for each in ref.objects(prefix)))
        outcomes = download_folder(
            ref, prefix, to, on_bytes=lambda count: bar.advance(task, count), presigned=presigned
        )
        return tally_of(outcomes, bar)


def _listing(ref: Ref, path: str, *, recursive: bool) -> Iterator[ObjectInfo]:
    """Yield what a folder holds; a path that is an object yields that."""
    delimiter, any_found = "" if recursive else "/", False
    for each in ref.objects(_folder(path), delimiter=delimiter):
        any_found = True
        yield each
    if not any_found and path:
        try:
            yield ref.stat(path)
        except NotFoundError as error:
            raise NotFoundError(
                error.kind, f"there is no object and no folder {path!r} at {ref.uri()}"
            ) from error


def _folder(path: str) -> str:
    return path if not path or path.endswith("/") else f"{path}/"


def _require_folder(path: Path) -> None:
    if not path.is_dir():
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"{path} is no folder: leave -r out for a file")


def _require_file(path: Path) -> None:
    if path.is_dir():
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"{path} is a folder: add -r")
    if not path.is_file():
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"there is no file {path}")
