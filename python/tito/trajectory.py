"""What a trajectory.tito holds."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Turn:
    """One generation. logprobs and raw_logprobs are None where the engine gave no list; facts is all else."""

    seq: int
    suffix: np.ndarray  # uint32, prompt ids after the kept ones
    completion: np.ndarray  # uint32
    logprobs: np.ndarray | None  # float32
    raw_logprobs: np.ndarray | None  # float32
    facts: dict[str, Any]


@dataclass
class Trajectory:
    """All that a file holds. Turns are numbered from 1: turns[seq - 1]."""

    header: dict[str, Any] = field(default_factory=dict)
    blobs: list[bytes] = field(default_factory=list)  # a turn's facts refer to them by number, from 1
    turns: list[Turn] = field(default_factory=list)
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None  # None while the trajectory is open
    head: bytes = b""  # of the hash chain
    size: int = 0  # bytes up to the end of the last whole record
    records: list[tuple[str, Any]] = field(default_factory=list)  # (type, content) in order

    def checkpoint(self, seq: int) -> np.ndarray:
        """The ids of a turn's prompt and completion."""
        parts, keep = [], sys.maxsize
        while keep:
            turn = self.turns[seq - 1]
            start = turn.facts["keep"]
            parts.append(np.concatenate([turn.suffix, turn.completion])[: max(keep - start, 0)])
            keep, seq = min(keep, start), turn.facts["base"]
        return np.concatenate(parts[::-1])

    def prompt(self, seq: int) -> np.ndarray:
        """The ids of a turn's prompt."""
        facts = self.turns[seq - 1].facts
        return self.checkpoint(seq)[: facts["keep"] + facts["suffix"]]

    def messages(self, seq: int) -> list[bytes]:
        """The messages of a turn's request, as the bytes that the harness sent."""
        parts, keep = [], sys.maxsize
        while keep:
            facts = self.turns[seq - 1].facts
            parts.append([self.blobs[n - 1] for n in facts.get("msg_new", [])][: max(keep - facts["msg_keep"], 0)])
            keep, seq = min(keep, facts["msg_keep"]), facts["msg_base"]
        return [message for part in parts[::-1] for message in part]

    def delivery(self, seq: int) -> str:
        """What became of a turn's answer."""
        states = [d["state"] for d in self.deliveries if d["seq"] == seq]
        return "delivered" if "delivered" in states else (states or ["ambiguous"])[-1]
