"""Encodes strings with tiktoken or with Mistral's Tekkenizer. The argument is a file with a JSON list of jobs {ranks,
pattern, special, slices, tekken, in, out}; out gets a line [ids with special tokens, ids without] for each string."""
import json
import sys

import tiktoken
from tiktoken.load import load_tiktoken_bpe

CHARS, ROW = 400_000, 25_000


def slices(text):
    """The cuts that Kimi's tokenizer makes, which reads no text longer than it trusts tiktoken with."""
    for block in (text[i : i + CHARS] for i in range(0, len(text), CHARS)):
        start = row = 0
        for i, c in enumerate(block):
            row = row + 1 if i > 0 and c.isspace() == block[i - 1].isspace() else 1
            if row > ROW:
                yield block[start:i]
                start, row = i, 1
        yield block[start:]


def reader(job):
    if job.get("tekken"):
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        tok = Tekkenizer.from_file(job["tekken"])
        return lambda text: [None, tok.encode(text, bos=False, eos=False)]
    enc = tiktoken.Encoding(
        name="test", pat_str=job["pattern"], mergeable_ranks=load_tiktoken_bpe(job["ranks"]), special_tokens=job["special"]
    )
    cut = slices if job.get("slices") else lambda text: [text]
    return lambda text: [
        [i for s in cut(text) for i in enc.encode(s, allowed_special="all")],
        [i for s in cut(text) for i in enc.encode_ordinary(s)],
    ]


with open(sys.argv[1]) as f:
    jobs = json.load(f)
for job in jobs:
    read = reader(job)
    with open(job["in"], encoding="utf-8") as f:
        texts = json.load(f)
    with open(job["out"], "w") as out:
        for text in texts:
            out.write(json.dumps(read(text)) + "\n")
