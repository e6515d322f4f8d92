"""Mark, then sweep: the ways into the job, each a module with its order and its crash table beside it.

marking      reads what `gathering` says, subtracts (`subtracting`), saves and publishes; deletes nothing
sweeping     deletes what a published mark lists, chunk by chunk (`sweep`), or puts it aside (`quarantine`)
"""

from lakebed.spark.gc.marking import mark
from lakebed.spark.gc.sweeping import restore, sweep
from lakebed.spark.gc.world import Tools, World

__all__ = ["Tools", "World", "mark", "restore", "sweep"]
