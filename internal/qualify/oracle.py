# Renders conversations with transformers, as engines hand them over: content is text, arguments are objects.
import hashlib, json, sys
from transformers import PreTrainedTokenizerFast
import jinja2, tokenizers, transformers

head = json.loads(sys.stdin.readline())
tok = PreTrainedTokenizerFast(tokenizer_file=head["tokenizer"], **head["tokens"])
tok.chat_template = head["template"]
print(json.dumps("transformers %s, tokenizers %s, Jinja2 %s" % (transformers.__version__, tokenizers.__version__, jinja2.__version__)))
for line in sys.stdin:
    c = json.loads(line)
    for m in c["messages"]:
        m["content"] = m.get("content") or ""
        for call in m.get("tool_calls") or []:
            f = call["function"]
            if not head["text_arguments"]:
                f["arguments"] = json.loads(f["arguments"]) if f["arguments"] else {}
    try:
        text = tok.apply_chat_template(c["messages"], tools=c["tools"], tokenize=False, add_generation_prompt=True, **head["kwargs"])
    except Exception as e:
        print(json.dumps("refused"))
        continue
    ids = tok.encode(text, add_special_tokens=False)
    print(json.dumps(hashlib.sha256((text + "\0" + ",".join(map(str, ids))).encode()).hexdigest()[:16]))
