package harness_test

import (
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/harness"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/trajectory"
)

func TestTheFirstMarkThatFitsDecidesTheClass(t *testing.T) {
	tool, err := ojson.Parse([]byte(`{"type":"function","function":{"name":"edit"}}`))
	if err != nil {
		t.Fatal(err)
	}
	info := harness.Info{Name: "x", Marks: []harness.Mark{
		{Class: trajectory.ClassAuxiliary, Why: "title", Tools: harness.ToolsAbsent, System: "You make titles"},
		{Class: trajectory.ClassPolicy, Why: "main", Tools: harness.ToolsPresent, Tool: "edit", Header: map[string]string{"Session_ID": ""}},
	}}
	system := func(s string) []chat.Message { return []chat.Message{{Role: chat.System, Content: chat.T(s)}} }
	session := map[string]string{"session_id": "1"}
	for _, c := range []struct {
		name    string
		r       chat.Request
		headers map[string]string
		class   trajectory.Class
		why     string
	}{
		{"Title", chat.Request{Messages: system("You make titles.")}, nil, trajectory.ClassAuxiliary, "title"},
		{"Main", chat.Request{Messages: system("You act."), Tools: []ojson.Value{tool}}, session, trajectory.ClassPolicy, "main"},
		{"NoHeader", chat.Request{Messages: system("You act."), Tools: []ojson.Value{tool}}, nil, trajectory.ClassUnclassified, "no mark of x"},
		{"NoTools", chat.Request{Messages: system("You act.")}, session, trajectory.ClassUnclassified, "no mark of x"},
		{"Empty", chat.Request{}, nil, trajectory.ClassUnclassified, "no mark of x"},
	} {
		if class, why := info.Classify(&c.r, c.headers); class != c.class || why != c.why {
			t.Errorf("%s: %s %q", c.name, class, why)
		}
	}
	if class, _ := (harness.Info{}).Classify(&chat.Request{}, nil); class != trajectory.ClassPolicy {
		t.Errorf("without marks: %s", class)
	}
}
