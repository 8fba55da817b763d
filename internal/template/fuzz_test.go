package template

import (
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
)

func FuzzCompileAndRender(f *testing.F) {
	_, probes := readProbes(f)
	for i, p := range probes {
		if i%3 == 0 {
			f.Add(p.template, `{"n":5,"s":"aé","l":[1,2.5,null],"d":{"b":1,"a":{"x":[]}},"x":true}`)
		}
	}
	f.Fuzz(func(t *testing.T, src, vars string) {
		tm, err := Compile(src)
		if err != nil {
			if fault.CodeOf(err) != fault.BadTemplate {
				t.Fatalf("code %s", fault.CodeOf(err))
			}
			return
		}
		v, err := ojson.Parse([]byte(vars))
		if err != nil {
			return
		}
		tm.limit = 1 << 16
		first, err := tm.Render(v.Members(), noon)
		if err != nil && fault.CodeOf(err) != fault.TemplateRefused {
			t.Fatalf("code %s", fault.CodeOf(err))
		}
		again, err2 := tm.Render(v.Members(), noon)
		if first != again || (err == nil) != (err2 == nil) {
			t.Fatal("a second rendering differs")
		}
	})
}

func TestHostileTemplatesAreRefusedNotRun(t *testing.T) {
	loops := strings.Repeat("{% for x in range(100000) %}", 4) + strings.Repeat("{% endfor %}", 4)
	for name, src := range map[string]string{
		"loops":             loops,
		"growing string":    "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(1000) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"growing list":      "{% set ns = namespace(l=[1,2,3,4]) %}{% for i in range(1000) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
		"big power":         "{{ 9 ** (9 ** 9) }}",
		"power of powers":   "{% set ns = namespace(n=10) %}{% for i in range(1000) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
		"repeat":            "{{ 'a' * 10 ** 12 }}",
		"repeat list":       "{{ [1] * 10 ** 12 }}",
		"padding":           "{{ '%1000000000d' % 1 }}{{ 'a'.center(10 ** 12) }}",
		"recursion":         "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"loop recursion":    "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"itself":            "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
		"deep value":        "{% set ns = namespace(a=[]) %}{% for i in range(5000) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}",
		"deep comparison":   "{% set ns = namespace(a=[],b=[]) %}{% for i in range(5000) %}{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
		"deep key":          "{% set ns = namespace(a=()) %}{% for i in range(5000) %}{% set ns.a = (ns.a,) %}{% endfor %}{{ {ns.a: 1} }}",
		"parentheses":       strings.Repeat("(", 100_000),
		"minus signs":       "{{" + strings.Repeat("-", 100_000) + "1}}",
		"nots":              "{{" + strings.Repeat("not ", 100_000) + "1}}",
		"brackets":          "{{" + strings.Repeat("[", 100_000),
		"attributes":        "{{ a" + strings.Repeat(".a", 100_000) + "}}",
		"filters":           "{{ 1" + strings.Repeat("|abs", 100_000) + "}}",
		"ifs":               strings.Repeat("{% if 1 %}", 100_000),
		"inline ifs":        "{{ 1" + strings.Repeat(" if 1 else 1", 100_000) + "}}",
		"elifs":             "{% if 0 %}" + strings.Repeat("{% elif 0 %}", 100_000) + "{% endif %}{{ 1/0 }}",
		"replace":           "{{ ('a' * 10000000).replace('', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') }}",
		"indent":            "{{ ('\n' * 1000000)|indent(1000000, true, true) }}",
		"generator":         "{% for x in range(100000)|batch(1)|list|map('length')|batch(100000000, 1) %}{{ x|length }}{% endfor %}",
		"generators nested": "{% set ns = namespace(g=[1]) %}{% for i in range(100000) %}{% set ns.g = ns.g|select %}{% endfor %}{{ ns.g|list }}",
	} {
		if name == "parentheses" {
			src = "{{" + src
		}
		tm, err := Compile(src)
		if err != nil {
			continue
		}
		tm.limit = 1 << 20
		if _, err := tm.Render([]ojson.Member{{Key: "a", Value: ojson.ObjectOf()}}, noon); fault.CodeOf(err) != fault.TemplateRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	if _, err := Compile("a\nb\n{% if %}"); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("compile: %v", err)
	}
	if _, err := renderRaw(t, "a\n\n{{ x.y.z }}", "{}"); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("render: %v", err)
	}
}

func TestATemplateIsSafeForConcurrentUse(t *testing.T) {
	tm, err := Compile("{% macro f(x) %}{{ x|tojson }}{% endmacro %}{% for m in l %}{{ f(m) }}{{ m.a.b[0] }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	v, err := ojson.Parse([]byte(`{"l":[{"a":{"b":[1,2]}},{"a":{"b":"xy"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	for range 8 {
		go func() {
			out, err := tm.Render(v.Members(), noon)
			if err != nil {
				out = err.Error()
			}
			done <- out
		}()
	}
	for range 8 {
		if got := <-done; got != `{"a": {"b": [1, 2]}}1{"a": {"b": "xy"}}x` {
			t.Errorf("%s", got)
		}
	}
}
