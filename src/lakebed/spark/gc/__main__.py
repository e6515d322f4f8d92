"""`python -m lakebed.spark.gc run …`, for schedulers that start modules: `lakebed gc` with its words and exit codes.

The command line is another layer's, and found as everybody finds it.
"""

import sys
from importlib.metadata import entry_points

if __name__ == "__main__":
    found = list(entry_points(group="console_scripts", name="lakebed"))
    if not found:
        sys.exit(
            "error: lakebed is not installed here, only its files are: pip install 'lakebed[spark]' where the driver runs"
        )
    sys.argv[1:1] = ["gc"]
    found[0].load()()
