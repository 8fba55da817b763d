"""The reference's answers, line by line. reference.py encode|render DIR < lines"""
import json
import sys

from transformers import AutoTokenizer

what, folder = sys.argv[1:]
tok = AutoTokenizer.from_pretrained(folder)
for line in sys.stdin:
    v = json.loads(line)
    if what == "encode":
        out = tok.encode(v, add_special_tokens=False)
    else:
        text = tok.apply_chat_template(v["messages"], tools=v.get("tools"), tokenize=False,
                                       add_generation_prompt=v.get("add_generation_prompt", True), **v.get("template_kwargs", {}))
        out = {"text": text, "ids": tok.encode(text, add_special_tokens=False)}
    print(json.dumps(out))
