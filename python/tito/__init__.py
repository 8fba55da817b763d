"""Exact tokens for agentic RL: reads tito's trajectories."""

from .artifact import ArtifactError, decode, read
from .recovery import Recovery, recover
from .trajectory import Trajectory, Turn

__all__ = ["ArtifactError", "Recovery", "Trajectory", "Turn", "decode", "read", "recover"]
