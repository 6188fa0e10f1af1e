"""What a layer says about a text: where a secret stands, of which kind, and how sure that is."""

from dataclasses import dataclass
from typing import Final, NamedTuple

HIGH: Final = "high"
LOW: Final = "low"
# The layers in the order of their weight: where two overlap, the earlier one names the kind.
LAYERS: Final = ("injected", "prefix", "structure", "pair", "number")


@dataclass(frozen=True, slots=True)
class Finding:
    """One secret: characters `start` to `end` (exclusive) of the text. It never holds the value."""

    kind: str
    start: int
    end: int
    confidence: str
    layer: str


class Hit(NamedTuple):
    """A finding in one view of the text, before its place in the text itself is known."""

    kind: str
    start: int
    end: int
    confidence: str = HIGH
