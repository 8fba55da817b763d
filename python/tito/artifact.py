"""A reader of trajectory.tito, format version 1. The format is spec/artifact.md; this file follows its order.

    >>> trajectory = tito.read("trajectory.tito")
    >>> for turn in trajectory.turns:
    ...     print(turn.seq, len(trajectory.prompt(turn.seq)), turn.completion, turn.logprobs)
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from .trajectory import Trajectory, Turn

PREAMBLE = b"tito-artifact/1\n"
_TYPES = {1: "header", 2: "blob", 3: "turn", 4: "delivery", 5: "end"}
_DICTIONARY = zstandard.ZstdCompressionDict(
    (Path(__file__).parent / "dictionary.txt").read_bytes(), dict_type=zstandard.DICT_TYPE_RAWCONTENT
)


class ArtifactError(Exception):
    """code is the layer that failed: magic, version, truncated, checksum, chain or record. record and offset say where;
    partial is the trajectory of the whole records before, if there is a header."""

    def __init__(self, code: str, message: str, record: int | None = None, offset: int | None = None):
        super().__init__(message if record is None else f"record {record} at byte {offset}: {message}")
        self.code, self.record, self.offset = code, record, offset
        self.partial: Trajectory | None = None


def read(path: str | Path) -> Trajectory:
    """Reads a file; ArtifactError where it is damaged."""
    return decode(Path(path).read_bytes())


def decode(data: bytes) -> Trajectory:
    """Reads an artifact's bytes; ArtifactError where they are damaged."""
    if not data.startswith(PREAMBLE):
        if PREAMBLE.startswith(data):
            raise ArtifactError("truncated", "the file ends inside its first line")
        known = data.startswith(PREAMBLE[:-2])
        raise ArtifactError("version" if known else "magic", f"the file does not begin with {PREAMBLE!r}")
    trajectory = Trajectory(head=hashlib.sha256(PREAMBLE).digest(), size=len(PREAMBLE))
    try:
        while trajectory.size < len(data):
            _record(trajectory, data)
        if not trajectory.records:
            raise ArtifactError("truncated", "the file ends before its header record")
    except ArtifactError as error:
        error.partial = trajectory if trajectory.records else None
        raise
    return trajectory


def head_is_right(frame: bytes) -> bool:
    return len(frame) >= 8 and zlib.crc32(frame[:6]) & 0xFFFF == int.from_bytes(frame[6:8], "little")


def _record(t: Trajectory, data: bytes) -> None:
    """Reads the record at t.size: head, body, checksum, chain."""
    at, index = t.size, len(t.records)
    if len(data) < at + 8:
        raise ArtifactError("truncated", "the file ends inside its head", index, at)
    if not head_is_right(data[at : at + 8]):
        raise ArtifactError("checksum", "its head is damaged", index, at)
    length, kind, encoding = struct.unpack_from("<IBB", data, at)
    end = at + 8 + length
    if length > 2**31 - 1:
        raise ArtifactError("record", f"it claims {length} bytes", index, at)
    if len(data) < end + 12:
        raise ArtifactError("truncated", "the file ends inside it", index, at)
    if zlib.crc32(data[at:end]) != int.from_bytes(data[end : end + 4], "little"):
        raise ArtifactError("checksum", "it is damaged", index, at)
    link = hashlib.sha256(t.head + data[at:end]).digest()
    if link[:8] != data[end + 4 : end + 12]:
        raise ArtifactError("chain", "it does not follow the record before it", index, at)
    try:
        t.records.append(_content(t, kind, encoding, data[at + 8 : end]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zstandard.ZstdError) as error:
        raise ArtifactError("record", str(error), index, at) from error
    t.head, t.size = link, end + 12


def _content(t: Trajectory, kind: int, encoding: int, body: bytes) -> tuple[str, Any]:
    _check(t.end is None, "a record after the end")
    _check((kind == 1) == (not t.records), "a header is the first record and no other")
    if kind not in _TYPES:
        _check(kind >= 0x80, f"a required record of unknown type {kind}")
        return "unknown", None
    payload = _payload(encoding, body)
    if kind == 2:
        _check(payload not in t.blobs, "a blob a second time")
        t.blobs.append(payload)
        return "blob", payload
    if kind == 3:
        turn = _turn(payload)
        _references(t, turn)
        t.turns.append(turn)
        return "turn", turn
    value = json.loads(payload)
    if kind == 1:
        t.header = value
    elif kind == 4:
        _check(1 <= value["seq"] <= len(t.turns), "a delivery of a turn that is not recorded")
        t.deliveries.append(value)
    else:
        _check(value["turns"] == len(t.turns) and value["records"] == len(t.records), "the end counts other records")
        _check(value["head"] == t.head.hex(), "the end names another head")
        t.end = value
    return _TYPES[kind], value


def _payload(encoding: int, body: bytes) -> bytes:
    _check(encoding in (0, 1), f"unknown encoding {encoding}")
    if encoding == 0:
        return body
    (size,) = struct.unpack_from("<I", body.ljust(4, b"\0"))
    _check(len(body) >= 4 and size <= 256 * len(body), "the body claims to become too large")
    out = zstandard.ZstdDecompressor(dict_data=_DICTIONARY, max_window_size=8 << 20).decompress(body[4:], max_output_size=size)
    _check(len(out) == size, "the body has another size")
    return out


def _turn(payload: bytes) -> Turn:
    length = int.from_bytes(payload[:4], "little")
    _check(4 + length <= len(payload), "the facts are longer than the record")
    facts: dict[str, Any] = json.loads(payload[4 : 4 + length])
    counts = [facts["suffix"] + facts["completion"], facts.get("logprobs") or 0, facts.get("raw_logprobs") or 0]
    _check(min(facts["suffix"], facts["completion"], *counts) >= 0, "a negative column")
    _check(4 * sum(counts) == len(payload) - 4 - length, "the columns have other lengths")
    columns, at = [], 4 + length
    for n in counts:  # all lowest bytes, then all second bytes, …
        planes = np.frombuffer(payload, np.uint8, 4 * n, at).reshape(4, n)
        columns.append(np.ascontiguousarray(planes.T).view("<u4").reshape(n))
        at += 4 * n
    ids, *floats = columns
    logprobs, raw = [((c >> 1) | (c << 31)).view("<f4") for c in floats]
    split = facts["suffix"]
    logprobs = None if facts.get("logprobs") is None else logprobs
    raw = None if facts.get("raw_logprobs") is None else raw
    return Turn(facts["seq"], ids[:split], ids[split:], logprobs, raw, facts)


def _references(t: Trajectory, turn: Turn) -> None:
    facts, n = turn.facts, len(t.turns)
    _check(turn.seq == n + 1, "a turn out of order")
    for key in ("parent", "nearest", "base", "msg_base"):
        _check(0 <= facts[key] <= n, f"{key} is not an earlier turn")
    ids = messages = 0  # that there are to keep
    if facts["base"]:
        base = t.turns[facts["base"] - 1].facts
        ids = base["keep"] + base["suffix"] + base["completion"]
    if facts["msg_base"]:
        base = t.turns[facts["msg_base"] - 1].facts
        messages = base["msg_keep"] + len(base.get("msg_new", []))
    _check(0 <= facts["keep"] <= ids, "it keeps more ids than there are")
    _check(0 <= facts["msg_keep"] <= messages, "it keeps more messages than there are")
    for number in [*facts.get("msg_new", []), facts.get("tools") or 1, facts.get("settings") or 1]:
        _check(1 <= number <= max(len(t.blobs), 1), f"blob {number} is not in the file")
    at = 0
    for span in facts.get("versions", []):
        _check(span["start"] == at <= span["end"] <= len(turn.completion), "version spans with a hole")
        at = span["end"]
    _check(at == len(turn.completion) or not facts.get("versions"), "version spans end early")
    for call in facts["reply"].get("calls", []):
        _check(0 <= call["span"]["start"] <= call["span"]["end"] <= len(turn.completion), "a call outside the completion")


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
