"""Encodes a JSON list of strings with Hugging Face's tokenizers: tokenizer.json, input, output (a line of ids a string)."""
import json
import os
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer

tok = Tokenizer.from_file(sys.argv[1])
with open(sys.argv[2], encoding="utf-8") as f:
    texts = json.load(f)
with open(sys.argv[3], "w") as out:
    for at in range(0, len(texts), 1000):
        for e in tok.encode_batch(texts[at : at + 1000], add_special_tokens=False):
            out.write(json.dumps(e.ids) + "\n")
