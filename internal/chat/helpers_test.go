package chat

import (
	"testing"

	"github.com/tito-rl/tito/internal/ojson"
)

func TestOnlyPresentWordsAreNotEmpty(t *testing.T) {
	for _, c := range []struct {
		text Text
		want bool
	}{{Text{}, true}, {Text{Presence: Null}, true}, {T(""), true}, {T(" "), false}} {
		if c.text.Empty() != c.want {
			t.Errorf("%+v: %v", c.text, !c.want)
		}
	}
}

func TestAToolIsNamedInsideOrOutsideItsFunction(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"function","function":{"name":"a"},"name":"b"}`: "a",
		`{"name":"b"}`:                       "b",
		`{"function":{"name":5}}`:            "",
		`{"type":"custom","custom":{"x":1}}`: "",
		`[]`:                                 "",
	} {
		v, err := ojson.Parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := ToolName(v); got != want {
			t.Errorf("%s: %q", raw, got)
		}
	}
}
