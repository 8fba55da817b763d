package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/ojson"
)

func TestCoverageNamesTheOutcomesThatNoRenderReached(t *testing.T) {
	tpl, err := Compile("{% if a %}x\n{% elif b %}y\n{% endif %}{% for i in [1] %}{% if i %}z{% endif %}{% endfor %}\n{% macro m() %}{% if a %}{% endif %}{% endmacro %}")
	if err != nil {
		t.Fatal(err)
	}
	var c Coverage
	o := tpl.Observed(&c)
	for _, b := range []bool{true, false} {
		if _, err := o.Render([]ojson.Member{{Key: "a", Value: ojson.BoolOf(false)}, {Key: "b", Value: ojson.BoolOf(b)}}, Clock{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tpl.Render([]ojson.Member{{Key: "a", Value: ojson.BoolOf(true)}}, Clock{}); err != nil { // unobserved
		t.Fatal(err)
	}
	all, missed := tpl.Outcomes(&c)
	want := []Outcome{{1, true}, {3, false}, {4, true}, {4, false}}
	if d := cmp.Diff(want, missed); d != "" || all != 8 {
		t.Errorf("of %d:\n%s", all, d)
	}
}
