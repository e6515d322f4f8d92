"""`python -m lakebed.spark.gc run …`, for spark-submit and schedulers that start modules."""

from lakebed.errors import LakebedError
from lakebed.spark.gc.command import app

if __name__ == "__main__":
    try:
        app()
    except LakebedError as error:
        raise SystemExit(f"error: {error}") from error
