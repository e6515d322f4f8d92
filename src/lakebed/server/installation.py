"""An embedded installation: a data folder, the engine on it, and what must be closed at the end."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from lakebed.committed.cache import RangeCache
from lakebed.env.clock import SystemClock
from lakebed.env.ids import SystemIds
from lakebed.env.work import ProcessWorkers, ThreadWorkers
from lakebed.kv.open import open_kv
from lakebed.objects.external import ExternalAddresses
from lakebed.objects.namespaces import canonical_namespace
from lakebed.objects.open import open_store
from lakebed.server.config import Config
from lakebed.server.data_folder import DataFolder
from lakebed.server.wiring import Surroundings, Wired, wire
