"""The garbage collection job: what is listed, subtracted, refused and deleted, over two engines.

Nothing here imports pyspark but the engine that is named after it, so that small
repositories, and the simulation, do without.
"""
