"""Encodes strings with Hugging Face's tokenizers. The argument is a file with a JSON list of jobs {model, in, out}: in
holds a JSON list of strings, out gets a line [ids, decoded text] for each."""
import json
import os
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer

with open(sys.argv[1]) as f:
    jobs = json.load(f)
for job in jobs:
    tok = Tokenizer.from_file(job["model"])
    with open(job["in"], encoding="utf-8") as f:
        texts = json.load(f)
    with open(job["out"], "w") as out:
        for at in range(0, len(texts), 1000):
            for e in tok.encode_batch(texts[at : at + 1000], add_special_tokens=False):
                out.write(json.dumps([e.ids, tok.decode(e.ids, skip_special_tokens=False)]) + "\n")
