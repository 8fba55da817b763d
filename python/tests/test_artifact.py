"""Runs the vectors of vectors/artifact: the same numbers as the Go reader. `python -m unittest discover -s tests -t .`"""

import hashlib
import json
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np

import tito

VECTORS = Path(os.environ.get("TITO_VECTORS", Path(__file__).parents[2] / "vectors")) / "artifact"


def bits(column):
    return None if column is None else column.view("<u4").tolist()


def described(trajectory):
    """The vector's `content` of a trajectory."""
    out = []
    for kind, value in trajectory.records:
        record = {"type": kind}
        if kind == "blob":
            record["blob"] = hashlib.sha256(value).hexdigest()
        elif kind == "turn":
            record["turn"] = {
                "seq": value.seq,
                "prompt": trajectory.prompt(value.seq).tolist(),
                "completion": value.completion.tolist(),
                "logprobs": bits(value.logprobs),
                "raw_logprobs": bits(value.raw_logprobs),
                "messages": [hashlib.sha256(m).hexdigest() for m in trajectory.messages(value.seq)],
                "facts": value.facts,
            }
        elif kind != "unknown":
            record[kind] = value
        out.append(record)
    return out


class Vectors(unittest.TestCase):
    maxDiff = None

    def test_every_vector(self):
        files = sorted(VECTORS.glob("*.json"))
        self.assertGreater(len(files), 40)
        for path in files:
            vector = json.loads(path.read_bytes())
            if vector["format"] == "tito-vectors/artifact/1":
                with self.subTest(path.stem):
                    self.check(vector, path.with_suffix(".tito").read_bytes())

    def check(self, vector, data):
        code, where, trajectory = "ok", (None, None), None
        try:
            trajectory = tito.decode(data)
        except tito.ArtifactError as error:
            code, where, trajectory = error.code, (error.record, error.offset), error.partial
        self.assertEqual(code, vector["expect"])
        self.assertEqual(where, (vector.get("record"), vector.get("offset")))
        self.assertEqual(described(trajectory) if trajectory else [], vector["content"])
        if trajectory:
            self.assertEqual(trajectory.head.hex(), vector["head"])
        self.check_recovery(vector, data)

    def check_recovery(self, vector, data):
        try:
            found = tito.recover(data)
        except tito.ArtifactError as error:
            self.assertEqual(error.code, vector["expect"])
            self.assertNotIn("recover", vector)
            return
        turns = len(found.trajectory.turns) if found.trajectory else 0
        self.assertEqual({"valid": found.valid, "lost": found.lost, "turns": turns}, vector["recover"])

    def test_no_flipped_byte_passes_and_every_cut_is_truncated(self):
        data = (VECTORS / "ok_branches.tito").read_bytes()
        for at in range(len(data)):
            with self.assertRaises(tito.ArtifactError):
                tito.decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        for at in range(len(data)):
            self.assertEqual(tito.recover(data[:at]).valid + tito.recover(data[:at]).lost, at)

    def test_read_takes_a_path_and_gives_typed_columns(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trajectory.tito"
            path.write_bytes((VECTORS / "ok_branches.tito").read_bytes())
            trajectory = tito.read(path)
        turn = trajectory.turns[0]
        self.assertEqual((turn.completion.dtype, turn.logprobs.dtype), (np.dtype("uint32"), np.dtype("float32")))
        self.assertEqual(trajectory.checkpoint(1).tolist(), trajectory.prompt(1).tolist() + turn.completion.tolist())
        self.assertEqual([trajectory.delivery(s) for s in (1, 2, 3)], ["delivered", "undelivered", "ambiguous"])


if __name__ == "__main__":
    unittest.main()
