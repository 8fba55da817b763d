"""Renders as Hugging Face transformers does, a JSON value a line in, {text} or {error} out.

{template, vars, now} renders a template; with a model folder as argument, {chat} is what apply_chat_template gives.
"""

import datetime
import json
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template

tokenizer = None
if len(sys.argv) > 1:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])


def render(case):
    if "chat" in case:
        chat = json.loads(case["chat"])
        return tokenizer.apply_chat_template(chat.pop("messages"), tokenize=False, **chat)
    now = datetime.datetime(*case["now"])
    variables = json.loads(case["vars"])
    variables.setdefault("strftime_now", lambda format: now.strftime(format))
    return _compile_jinja_template(case["template"]).render(**variables)


for line in sys.stdin:
    try:
        answer = {"text": render(json.loads(line))}
    except Exception as e:
        answer = {"error": f"{type(e).__name__}: {e}"[:300]}
    print(json.dumps(answer), flush=True)
