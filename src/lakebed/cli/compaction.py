"""`lakebed compaction`."""

from typing import Annotated

import typer

from lakebed.cli.arguments import BranchArgument, RepoArgument
from lakebed.cli.output import JsonOption, print_json, print_table, say, say_done
from lakebed.client.client import Client
from lakebed.client.uri import parse_ref, parse_repo

app = typer.Typer(help="Watch and steer the merging of what is staged.", no_args_is_help=True)


@app.command()
def status(repo: RepoArgument, *, json: JsonOption = False) -> None:
    """Show what is staged and not merged yet, and the jobs that merge it.

    A job that is parked failed too often: its error says why, and `retry` tries it again. One that is
    queued with an error waits for a store that failed it, and is tried again by itself.
    """
    with Client() as client:
        found = client.repo(parse_repo(repo)).compaction.state()
    if json:
        print_json(found)
        return
    say("{} sealed layers{}", str(found.sealed_layers), "; no jobs are begun: paused" if found.paused else "")
    if found.flushed_bytes:
        say(
            "{} bytes of layers were merged, {} bytes of files made of them: write amplification {}",
            f"{found.flushed_bytes:,}",
            f"{found.written_bytes:,}",
            f"{found.written_bytes / found.flushed_bytes:.2f}",
        )
    print_table(
        ("branch", "sealed layers", "changes in the tree"),
        (
            (each.branch, str(each.sealed_layers), "" if each.changes is None else str(each.changes))
            for each in found.branches
        ),
        empty="Every branch is compacted.",
    )
    print_table(
        ("job", "kind", "state", "branch", "layers", "failures", "why", "error"),
        (
            (
                *(job.id, job.kind, job.state, job.branch),
                *(str(job.layers), str(job.failures), job.reason, job.error),
            )
            for job in found.jobs
        ),
        empty="No jobs.",
    )


@app.command()
def pause(repo: RepoArgument, *, json: JsonOption = False) -> None:
    """Begin no more jobs in a repository; what runs goes on.

    Writers are asked to wait when a branch has too many layers: resume before that.
    """
    with Client() as client:
        client.repo(parse_repo(repo)).compaction.pause()
    say_done(
        "compaction of {} is paused", parse_repo(repo), json=json, repository=parse_repo(repo), paused=True
    )


@app.command()
def resume(repo: RepoArgument, *, json: JsonOption = False) -> None:
    """Begin jobs again after a pause."""
    with Client() as client:
        client.repo(parse_repo(repo)).compaction.resume()
    say_done(
        "compaction of {} goes on", parse_repo(repo), json=json, repository=parse_repo(repo), paused=False
    )


@app.command()
def run(branch: BranchArgument, *, json: JsonOption = False) -> None:
    """Ask for everything staged on a branch to be merged, whatever its size.

    It returns at once, and a compactor does the job: `status` shows how far it is.

    Example: lakebed compaction run lakebed://shop/main
    """
    uri = parse_ref(branch)
    with Client() as client:
        job = client.repo(uri.repo).compaction.run(uri.ref)
    if json:
        print_json(job)
    elif job is None:
        say("nothing on {} is left to compact", uri.ref)
    else:
        say("job {} merges {} layers of {}", job.id, str(job.layers), job.branch)


@app.command()
def epoch(
    repo: Annotated[
        str | None, typer.Argument(metavar="[REPO]", help="The repository.", show_default=False)
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every repository.")] = False,
    json: JsonOption = False,
) -> None:
    """After the database was restored from a copy or a fail-over: let no attempt of before get in.

    A restored database gives out numbers of attempts that were given out before. This raises them above all of those. Do it
    before compactors are started again; once too often does no harm.

    Example: lakebed compaction epoch --all
    """
    if (repo is not None) == everything:
        raise typer.BadParameter("name the repository, or say --all")
    with Client() as client:
        names = [parse_repo(repo)] if repo is not None else [each.id for each in client.repositories()]
        raised = {name: client.repo(name).compaction.raise_epoch() for name in names}
    if json:
        print_json(raised)
        return
    for name, number in raised.items():
        say("the epoch of {} is {}", name, str(number))


@app.command()
def retry(
    repo: RepoArgument,
    job: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB]…", help="Parked jobs.", show_default=False)
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All parked jobs.")] = False,
    max_failures: Annotated[
        int | None,
        typer.Option(min=0, help="How often they may fail before they are parked again; usually 3."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Try jobs again that failed too often.

    Example: lakebed compaction retry lakebed://shop --all --max-failures 10
    """
    if bool(job) == everything:
        raise typer.BadParameter("name the jobs, or say --all")
    with Client() as client:
        count = client.repo(parse_repo(repo)).compaction.retry(
            None if everything else job, max_failures=max_failures
        )
    say_done("{} jobs are tried again", str(count), json=json, retried=count)
