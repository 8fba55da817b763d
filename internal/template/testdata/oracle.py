"""Renders templates as Hugging Face transformers does: JSON lines {template, vars, now} in, {text} or {error} out."""

import datetime
import json
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template

for line in sys.stdin:
    case = json.loads(line)
    now = datetime.datetime(*case["now"])
    try:
        variables = json.loads(case["vars"])
        variables.setdefault("strftime_now", lambda format: now.strftime(format))
        answer = {"text": _compile_jinja_template(case["template"]).render(**variables)}
    except Exception as e:
        answer = {"error": f"{type(e).__name__}: {e}"[:300]}
    print(json.dumps(answer), flush=True)
