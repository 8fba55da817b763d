//go:build e2e

package session

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/dialect/chatcompletions"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/trajectory"
)

// capture is one recorded request of a real harness and the answer that it got.
type capture struct {
	number string
	body   []byte
	Kind   string   `json:"kind"`
	IDs    []string `json:"tool_call_ids"`
	Spec   struct {
		Reasoning *string `json:"reasoning"`
		Content   *string `json:"content"`
		Calls     []struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"tool_calls"`
	} `json:"response_spec"`
	RawHeaders []string `json:"rawHeaders"`
}

func (c *capture) header(names ...string) string {
	for i := 0; i+1 < len(c.RawHeaders); i += 2 {
		for _, n := range names {
			if strings.EqualFold(c.RawHeaders[i], n) {
				return c.RawHeaders[i+1]
			}
		}
	}
	return ""
}

// captures lists a harness's scenarios, each with its requests in order.
func captures(t *testing.T, harness string) (names []string, scenarios map[string][]*capture) {
	dir := testkit.Captures(t, harness)
	f, err := os.Open(filepath.Join(dir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = '\t', true, -1
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	scenarios = map[string][]*capture{}
	for _, row := range rows[1:] {
		c := &capture{number: row[0]}
		if c.body, err = os.ReadFile(filepath.Join(dir, row[0]+".json")); err != nil {
			t.Fatal(err)
		}
		meta, err := os.ReadFile(filepath.Join(dir, row[0]+".meta.json"))
		if err == nil {
			err = json.Unmarshal(meta, c)
		}
		if err != nil {
			t.Fatal(err)
		}
		if scenarios[row[1]] == nil {
			names = append(names, row[1])
		}
		scenarios[row[1]] = append(scenarios[row[1]], c)
	}
	return names, scenarios
}

// The requests of OpenCode and Pi, in their order, with the scripted answers as the policy's own and its call ids in the
// place of the script's. What each turn is matched to is recorded in testdata/captures.
func TestE2ECapturedRequestsAreMatchedAsTheirScenariosMean(t *testing.T) {
	for _, harness := range []string{"opencode", "pi"} {
		t.Run(harness, func(t *testing.T) {
			names, scenarios := captures(t, harness)
			if len(names) < 3 {
				t.Fatalf("only %d scenarios", len(names))
			}
			var out strings.Builder
			for _, name := range names {
				fmt.Fprintf(&out, "# %s\n", name)
				replay(t, &out, scenarios[name])
			}
			file := filepath.Join("testdata", "captures", harness+".golden")
			if *rewrite {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), out.String()); d != "" {
				t.Errorf("(-recorded +now):\n%s", d)
			}
		})
	}
}

func replay(t *testing.T, out *strings.Builder, scenario []*capture) {
	r := onBundle(t)
	r.s.cfg.Header.MaxContext = 0
	r.s.cfg.Classify = func(e *CallArrived) (trajectory.Class, string) {
		if len(e.Request.Tools) == 0 {
			return trajectory.ClassAuxiliary, "no tools"
		}
		return trajectory.ClassPolicy, "tools"
	}
	var from, to []string
	for _, c := range scenario {
		body := c.body
		for i := range from {
			body = bytes.ReplaceAll(body, []byte(`"`+from[i]+`"`), []byte(`"`+to[i]+`"`))
		}
		req, err := chatcompletions.Dialect{}.ParseRequest(body)
		if err != nil {
			t.Fatalf("%s: %v", c.number, err)
		}
		reply := r.play(c, &req)
		turn := r.s.Tree().Turn(reply.Turn)
		fmt.Fprintf(out, "%s %s turn %d after %d: %s", c.number, turn.Class, turn.Seq, turn.Parent, continuity(reply.Continuity))
		if turn.Parent == 0 && turn.Nearest != 0 {
			fmt.Fprintf(out, " near %d", turn.Nearest)
		}
		for _, e := range turn.Echoes {
			fmt.Fprintf(out, "; %d %s of %d %s", e.Message, e.Verdict, e.Turn, strings.Join(e.Which, " "))
		}
		out.WriteString("\n")
		if len(reply.Reply.Calls) != len(c.IDs) {
			t.Fatalf("%s: %d calls, the script has %d", c.number, len(reply.Reply.Calls), len(c.IDs))
		}
		for i, id := range c.IDs {
			from, to = append(from, id), append(to, reply.Reply.Calls[i].ID)
		}
	}
}

// play answers a captured request as its script did.
func (r *real) play(c *capture, req *chat.Request) Reply {
	r.t.Helper()
	var said chat.Reply
	if c.Spec.Reasoning != nil {
		said.Reasoning = chat.T(*c.Spec.Reasoning)
	}
	if c.Spec.Content != nil {
		said.Content = chat.T(*c.Spec.Content)
	}
	for _, call := range c.Spec.Calls {
		said.Calls = append(said.Calls, chat.Call{Name: call.Name, Arguments: call.Arguments})
	}
	ids, err := r.f.Speak(said)
	if err != nil {
		r.t.Fatalf("%s: %v", c.number, err)
	}
	id := r.s.Next()
	var last []Effect
	for _, e := range []Event{
		&CallArrived{Request: req, Session: c.header("x-session-id", "session_id"), ParentSession: c.header("x-parent-session-id")},
		EngineChunk{Call: id, IDs: ids, Logprobs: make([]float32, len(ids))},
		EngineFinal{Call: id, Finish: "stop"},
		Persisted{r.s.appends + 1},
	} {
		effects, err := r.s.Step(e)
		if err != nil {
			r.t.Fatal(err)
		}
		last = append(last[:0], effects...)
		if len(last) == 1 {
			if x, ok := last[0].(Reject); ok {
				r.t.Fatalf("%s: %s %v", c.number, fault.CodeOf(x.Err), x.Err)
			}
		}
	}
	reply, ok := last[0].(Reply)
	if !ok {
		r.t.Fatalf("%s: %+v", c.number, last)
	}
	if _, err := r.s.Step(Delivered{Call: id}); err != nil {
		r.t.Fatal(err)
	}
	return reply
}
