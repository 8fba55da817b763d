package qualify

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/certify"
	"github.com/tito-rl/tito/internal/engine/rehearsal"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/ojson"
	policy "github.com/tito-rl/tito/internal/rehearsal"
)

// played is an engine for the built-in model.
func played(t *testing.T) *rehearsal.Engine {
	t.Helper()
	m, err := model.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	book, err := policy.Merge()
	if err != nil {
		t.Fatal(err)
	}
	f, err := rehearsal.FormatOf(m.Tokenizer, m.Family)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile(book, f)
	if err != nil {
		t.Fatal(err)
	}
	e, err := rehearsal.New(rehearsal.Config{Policy: p, Params: p.Initial("v0"), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestTheBuiltInModelIsCertified(t *testing.T) {
	known, recorded, err := Data()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Run(t.Context(), Options{Dir: model.BuiltinName, Code: "test", Known: known, Recorded: recorded, Engine: played(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range c.Levels {
		if l.Verdict != certify.Proved {
			t.Errorf("%s is %s: %s", l.Level, l.Verdict, l.Why)
		}
	}
	if len(c.Levels) != 6 || len(c.Surprises) > 0 || c.claim("parity").Verdict != certify.Proved {
		t.Errorf("%d levels, surprises %q, parity %+v", len(c.Levels), c.Surprises, c.claim("parity"))
	}
	all := certify.Kinds()
	want := Allowed{FullHistory: true, Incremental: map[string][]string{WithTools: all, WithoutTools: all}, Needs: []string{}}
	if d := cmp.Diff(want, c.Allowed); d != "" {
		t.Error(d)
	}
	if len(c.Key) != 64 || c.Key != c.Pins.Key() || len(c.Junctions) != 15 {
		t.Errorf("key %q, %d junctions", c.Key, len(c.Junctions))
	}
	// It survives being written and read.
	x, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var back Certificate
	if err := json.Unmarshal(x, &back); err != nil {
		t.Fatal(err)
	}
	y, err := json.MarshalIndent(&back, "", " ")
	if err != nil || !bytes.Equal(x, y) {
		t.Errorf("%v, %d and %d bytes", err, len(x), len(y))
	}
}

func TestAWrongReferenceRefutesParityAndFullHistory(t *testing.T) {
	_, recorded, err := Data()
	if err != nil {
		t.Fatal(err)
	}
	m, f, err := load(model.BuiltinName)
	if err != nil {
		t.Fatal(err)
	}
	for i := range recorded {
		recorded[i].Answers = slices.Clone(recorded[i].Answers)
		recorded[i].Answers[3] = "0000000000000000"
	}
	s := certify.Model{Family: m.Family, Tokenizer: m.Tokenizer}
	c, _, err := parity(t.Context(), Options{Recorded: recorded}, m, f, s)
	if err != nil || c.Verdict != certify.Refuted || c.Refuted != 1 || c.Counter == nil {
		t.Fatalf("%+v, %v", c, err)
	}
	if a := allowed([]certify.Level{{Level: "L1", Verdict: certify.Refuted}}); a.FullHistory {
		t.Error("full_history is allowed")
	}
	c, _, err = parity(t.Context(), Options{}, m, f, s)
	if err != nil || c.Verdict != certify.NotAttempted || c.Why == "" {
		t.Fatalf("%+v, %v", c, err)
	}
}

func TestAnUnexpectedPassAndANewRefutationAreSurprises(t *testing.T) {
	known := []Known{{Template: "t", Refuted: map[string]string{"a": "why a", "b": "why b"}}}
	c := &Certificate{Pins: Pins{Template: "t", Kwargs: json.RawMessage("{}")}, Levels: []certify.Level{{Claims: []certify.Claim{
		{Claim: "a", Verdict: certify.Refuted}, {Claim: "b", Verdict: certify.Proved}, {Claim: "c", Verdict: certify.Refuted}}}}}
	c.expect(known)
	if len(c.Surprises) != 2 || !strings.HasPrefix(c.Surprises[0], "b is proved") || !strings.HasPrefix(c.Surprises[1], "c is refuted") || c.claim("a").Known != "why a" {
		t.Errorf("%q %+v", c.Surprises, c.claim("a"))
	}
	other := &Certificate{Pins: Pins{Template: "t", Kwargs: json.RawMessage(`{"x":1}`)}, Levels: c.Levels}
	if other.expect(known); len(other.Surprises) > 0 {
		t.Errorf("other settings: %q", other.Surprises)
	}
}

func TestTheKeyChangesWithEachPin(t *testing.T) {
	base := Pins{Files: map[string]string{"tokenizer.json": "x"}, Template: "t", Family: "f", Kwargs: json.RawMessage("{}"), Code: "c"}
	seen := map[string]bool{base.Key(): true}
	for i, change := range []func(*Pins){
		func(p *Pins) { p.Files = map[string]string{"tokenizer.json": "y"} },
		func(p *Pins) { p.Tokenizer = "u" },
		func(p *Pins) { p.Template = "u" },
		func(p *Pins) { p.Family = "g" },
		func(p *Pins) { p.Kwargs = json.RawMessage(`{"a":1}`) },
		func(p *Pins) { p.Code = "d" },
	} {
		p := base
		if change(&p); seen[p.Key()] {
			t.Errorf("change %d keeps the key", i)
		} else {
			seen[p.Key()] = true
		}
	}
}

func TestSettingsThatAreNoObjectAreRefused(t *testing.T) {
	v, err := ojson.Parse([]byte("[1]"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Options{Dir: model.BuiltinName, Kwargs: v}); fault.CodeOf(err) != fault.BadFlag {
		t.Error(err)
	}
	if _, err := Run(t.Context(), Options{Dir: t.TempDir() + "/none"}); fault.CodeOf(err) != fault.FileMissing {
		t.Error(err)
	}
	if _, err := Ask(t.Context(), Options{Dir: model.BuiltinName, Python: "/nonexistent/python"}); fault.CodeOf(err) != fault.BadFlag {
		t.Error(err)
	}
}
