"""What is left of a file that was cut."""

from __future__ import annotations

from dataclasses import dataclass

from .artifact import PREAMBLE, ArtifactError, decode, head_is_right
from .trajectory import Trajectory


@dataclass
class Recovery:
    """What is left of a file that was cut: valid bytes to go on from, and lost ones after them."""

    valid: int
    lost: int
    trajectory: Trajectory | None


def recover(data: bytes) -> Recovery:
    """Finds the whole records of a file that was cut at any byte. Damage that no cut explains is an ArtifactError."""
    try:
        trajectory: Trajectory | None = decode(data)
    except ArtifactError as error:
        trajectory = error.partial
        tail = data[trajectory.size if trajectory else len(PREAMBLE) :]
        torn = not tail.strip(b"\0") or (
            head_is_right(tail) and len(tail) == 20 + int.from_bytes(tail[:4], "little")
        )
        if error.code != "truncated" and not (error.code == "checksum" and torn):
            raise
    valid = trajectory.size if trajectory else 0
    return Recovery(valid, len(data) - valid, trajectory)
