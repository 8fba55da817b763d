"""Renders conversations with transformers: model directory, input (a JSON list of apply_chat_template arguments), output."""
import json
import os
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers import PreTrainedTokenizerFast

directory, source, target = sys.argv[1:]
tok = PreTrainedTokenizerFast.from_pretrained(directory)
out = []
with open(source, encoding="utf-8") as f:
    for c in json.load(f):
        out.append(
            {
                "text": tok.apply_chat_template(c["messages"], tools=c["tools"], tokenize=False, add_generation_prompt=True),
                "ids": tok.apply_chat_template(c["messages"], tools=c["tools"], tokenize=True, add_generation_prompt=True),
            }
        )
with open(target, "w", encoding="utf-8") as f:
    json.dump(out, f)
