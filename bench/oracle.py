"""The other side of two comparisons, in Python: `tokens` is Hugging Face's tokenizers, `template` is Jinja2 as transformers sets it up.

It prints one JSON object, and writes what it made to a file so that the two sides can be compared.
"""

import json
import os
import struct
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"


def tokens(model, texts, out):
    from tokenizers import Tokenizer

    with open(texts, encoding="utf-8", newline="") as f:
        docs = json.load(f)
    begin = time.process_time()
    tok = Tokenizer.from_file(os.path.join(model, "tokenizer.json"))
    load = time.process_time() - begin
    begin = time.process_time()
    ids = [tok.encode(d, add_special_tokens=False).ids for d in docs]
    encode = time.process_time() - begin
    with open(out, "wb") as f:
        for d in ids:
            f.write(struct.pack(f"<{len(d)}I", *d))
    fresh = Tokenizer.from_file(os.path.join(model, "tokenizer.json"))
    begin = time.process_time()
    fresh.encode_batch_fast(docs, add_special_tokens=False)
    return {"load": load, "encode": encode, "fast": time.process_time() - begin}


def template(source, variables, out):
    from transformers.utils.chat_template_utils import _compile_jinja_template

    with open(source, encoding="utf-8", newline="") as f:
        compiled = _compile_jinja_template(f.read())
    with open(variables, encoding="utf-8") as f:
        v = json.load(f)
    text = compiled.render(**v)
    with open(out, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    best = []
    for _ in range(60):
        begin = time.process_time()
        compiled.render(**v)
        best.append(time.process_time() - begin)
    return {"render": sorted(best)[len(best) // 2]}


print(json.dumps({"tokens": tokens, "template": template}[sys.argv[1]](*sys.argv[2:])))
