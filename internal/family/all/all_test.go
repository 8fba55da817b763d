package all

import (
	"testing"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

func TestAModelIsReadByTheFormatThatItsTemplateWrites(t *testing.T) {
	b, err := builtin.Bundle.ReadFile("bundle/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	own, err := builtin.Bundle.ReadFile("bundle/chat_template.jinja")
	if err != nil {
		t.Fatal(err)
	}
	const turns = `{% for m in messages %}<|im_start|>{{ m.role }}` + "\n" + `{{ m.content }}<|im_end|>` + "\n" + `{% endfor %}`
	const xml = "<tool_call>\n<function=probe></function></tool_call>"
	for _, c := range []struct{ what, tpl, name string }{
		{"the built-in template", string(own), "chatml-hermes"},
		{"no calls", turns + `<|im_start|>assistant` + "\n", "generic"},
		{"calls in another form", turns + xml + `<|im_start|>assistant` + "\n", "generic"},
		{"no token ends a reply", `{% for m in messages %}{{ m.content }}{% endfor %}`, ""},
		{"replies left out", `{% for m in messages %}{{ m.role }}<|im_end|>{% endfor %}`, ""},
		{"a template that fails", `{{ raise_exception("no") }}`, ""},
	} {
		tpl, err := template.Compile(c.tpl)
		if err != nil {
			t.Fatal(err)
		}
		f, err := New(tok, tpl, family.Options{})
		switch {
		case c.name == "" && fault.CodeOf(err) != fault.UnknownFamily:
			t.Errorf("%s: %v", c.what, err)
		case c.name != "" && (err != nil || f.Name() != c.name):
			t.Errorf("%s: %v %v", c.what, f, err)
		}
	}
}
