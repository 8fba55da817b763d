"""Times Hugging Face's tokenizers. The argument is a file with a JSON list of jobs {model, in}: in holds a JSON list of
strings. Prints a JSON list of processor seconds, one core, each tokenizer fresh from its file."""
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer

out = []
for job in json.load(open(sys.argv[1])):
    tok = Tokenizer.from_file(job["model"])
    texts = json.load(open(job["in"], encoding="utf-8"))
    start = time.process_time()
    for text in texts:
        tok.encode_batch_fast([text], add_special_tokens=False)
    out.append(time.process_time() - start)
json.dump(out, sys.stdout)
