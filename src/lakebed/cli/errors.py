"""Errors as sentences on standard error, with the next step, and as exit codes that scripts can branch on."""

from typing import Final

from rich.console import Console
from rich.text import Text

from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    DeniedError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
)

# 1 is any other failure and 2 a command line that cannot be parsed; kept apart from each other for scripts.
_EXIT_CODES: Final[dict[type[LakebedError], int]] = {
    InvalidInputError: 2,
    NotFoundError: 3,
    AlreadyExistsError: 4,
    ConflictError: 5,
    PreconditionError: 5,
    DeniedError: 6,
    UnavailableError: 7,
    CorruptError: 8,
}

_NEXT_STEPS: Final[dict[ErrorKind, str]] = {
    ErrorKind.INVALID_CONFIG: "lakebed config shows what is set, and where",
    ErrorKind.UNAUTHENTICATED: "lakebed doctor checks the access key",
    ErrorKind.PERMISSION_DENIED: "an administrator can attach a policy with lakebed auth",
    ErrorKind.NO_CHANGES: "`lakebed diff BRANCH` shows what is uncommitted; commit and merge accept --allow-empty",
    ErrorKind.DIRTY_BRANCH: "commit, stash or reset what is uncommitted first",
    ErrorKind.STORE_UNAVAILABLE: "check that it runs, and its address; `lakebed doctor` checks a Lakebed server",
    ErrorKind.CHECKSUM_MISMATCH: "run the same command again",
    ErrorKind.SPARK_FAILED: "run it again; if it fails again, --spark-log FILE keeps what a Spark of our own has to say",
}


def exit_code_of(error: LakebedError) -> int:
    """Return the exit code of a command that ends with `error`."""
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)


def show(error: LakebedError) -> None:
    """Print what went wrong and what to do about it."""
    console = Console(stderr=True, highlight=False)
    line = Text.assemble(("error: ", "bold red"), str(error), (f" ({error.kind})", "dim"))
    console.print(line, soft_wrap=True)
    if step := _NEXT_STEPS.get(error.kind):
        console.print(Text.assemble(("next:  ", "bold"), step), soft_wrap=True)
