"""`GcRules`: how long a repository keeps what its branches no longer show."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class GcRules:
    """For how many days what a branch no longer shows is kept. 0 days is a rule."""

    default_days: int
    branches: dict[str, int] = field(default_factory=dict)
