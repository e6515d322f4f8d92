"""`python -m lakebed.spark.gc run …`, for schedulers that start modules: `lakebed gc` with its words and exit codes.

The command line is another layer's, and found as everybody finds it.
"""

import sys
from importlib.metadata import entry_points

if __name__ == "__main__":
    (lakebed,) = entry_points(group="console_scripts", name="lakebed")
    sys.argv[1:1] = ["gc"]
    lakebed.load()()
