package template

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/testkit"
)

// noon is the time of the recorded probes: 2026-03-07 15:04:05, a Saturday.
var noon = Clock{Year: 2026, Month: 3, Day: 7, Hour: 15, Minute: 4, Second: 5, Weekday: 6, YearDay: 66}

func probesFile() string { return filepath.Join(testkit.Root(), "vectors", "template", "probes.json") }

type probe struct {
	vars, template string
	want           ojson.Value // of Python: a string, or invalid where it refuses
}

func readProbes(t testing.TB) (ojson.Value, []probe) {
	t.Helper()
	b, err := os.ReadFile(probesFile())
	if err != nil {
		t.Fatal(err)
	}
	file, err := ojson.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	sets, _ := file.Get("vars")
	list, _ := file.Get("probes")
	var out []probe
	for _, p := range list.Elems() {
		name, _ := p.Get("vars")
		set, ok := sets.Get(name.Str())
		tmpl, ok2 := p.Get("template")
		if !ok || !ok2 {
			t.Fatalf("a probe without vars or template: %s", p.Raw())
		}
		want, _ := p.Get("text")
		out = append(out, probe{string(set.Raw()), tmpl.Str(), want})
	}
	return file, out
}

// renderRaw compiles and renders with vars as JSON text.
func renderRaw(t testing.TB, src, vars string) (string, error) {
	t.Helper()
	v, err := ojson.Parse([]byte(vars))
	if err != nil {
		t.Fatal(err)
	}
	tm, err := Compile(src)
	if err != nil {
		if fault.CodeOf(err) != fault.BadTemplate {
			t.Errorf("%s: code %s", src, fault.CodeOf(err))
		}
		return "", err
	}
	out, err := tm.Render(v.Members(), noon)
	if err != nil && fault.CodeOf(err) != fault.TemplateRefused {
		t.Errorf("%s: code %s", src, fault.CodeOf(err))
	}
	return out, err
}

func TestRecordedProbesGiveWhatPythonGave(t *testing.T) {
	_, probes := readProbes(t)
	if len(probes) < 150 {
		t.Fatalf("only %d probes", len(probes))
	}
	for _, p := range probes {
		got, err := renderRaw(t, p.template, p.vars)
		switch {
		case err != nil && p.want.IsValid():
			t.Errorf("%s\n  refused: %v\n  want     %q", p.template, err, p.want.Str())
		case err == nil && !p.want.IsValid():
			t.Errorf("%s\n  gives %q, but Python refuses", p.template, got)
		case err == nil && got != p.want.Str():
			t.Errorf("%s\n  got  %q\n  want %q", p.template, got, p.want.Str())
		}
	}
}
