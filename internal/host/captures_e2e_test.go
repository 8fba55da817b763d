//go:build e2e

package host_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/session"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/trajectory"
)

// means says what each request of a scenario is to its trajectory: its turn, the turn before it, how it goes on from there
// under the default policy and why, and how its new echoes read: the turn, the verdict, what differs. A line that begins with
// a model's name is for that model alone.
const means = `
opencode basic: a title, then a chain. Arguments are written anew, null becomes "". An answer that begins with line feeds is tokenized together with the end of its prompt.
  001 1 after 0 root auxiliary
  002 2 after 0 root first
  003 3 after 2 realign                   2 equivalent arguments_json
  004 4 after 3 realign                   3 equivalent content_empty arguments_json
  005 5 after 4 realign                   4 equivalent content_empty arguments_json
  006 6 after 5 split token_drift         5 equivalent arguments_json

opencode badcalls: a call that cannot be run is renamed "invalid", a name in the wrong case is put right; what cannot be executed for its arguments stays.
  007 1 after 0 root auxiliary
  008 2 after 0 root first
  009 3 after 2 split history_rewritten   2 rewritten name arguments
  010 4 after 3 split history_rewritten   3 rewritten name arguments
  011 5 after 4 realign                   4 exact
  012 6 after 5 split history_rewritten   5 rewritten name
  013 7 after 6 realign                   6 exact
  014 8 after 7 realign                   7 equivalent arguments_json
  015 9 after 8 extend                    8 exact

opencode task: three sub-agents with conversations of their own; the main chain goes on behind each.
  063 1 after 0 root auxiliary
  064 2 after 0 root first
  065 3 after 0 root sub_agent
  066 4 after 3 realign                   3 exact
  067 5 after 2 realign                   2 exact
  068 6 after 0 root sub_agent
  069 7 after 0 root sub_agent
  070 8 after 5 realign                   5 exact

opencode compact: the history is summarized without tools, and the summary, which was sampled, comes back as an assistant's message of a new context.
  075 1 after 0 root auxiliary
  076 2 after 0 root first
  077 3 after 2 realign                   2 exact
  078 4 after 3 split contract_changed    2 exact 3 exact
  079 5 after 4 split contract_changed    4 exact
  080 6 after 5 realign                   5 exact

opencode interleaved: an answer without reasoning comes back with an empty one.
  126 1 after 0 root auxiliary
  127 2 after 0 root first
  128 3 after 2 realign                   2 exact
  129 4 after 3 realign                   3 equivalent reasoning_empty

pi basic: a chain, edited as OpenCode does.
  001 1 after 0 root first
  002 2 after 1 realign                   1 equivalent arguments_json
  003 3 after 2 realign                   2 equivalent content_empty arguments_json
  004 4 after 3 realign                   3 equivalent content_empty arguments_json
  005 5 after 4 split token_drift         4 equivalent arguments_json

pi badcalls: arguments that are no JSON become {} or are repaired; names stay.
  008 1 after 0 root first
  009 2 after 1 split history_rewritten   1 rewritten arguments
  010 3 after 2 realign                   2 exact
  011 4 after 3 realign                   3 exact
  012 5 after 4 realign                   4 exact
  013 6 after 5 realign                   5 exact
  014 7 after 6 realign                   6 equivalent arguments_json
  015 8 after 7 extend                    7 exact
  016 9 after 8 split history_rewritten   8 rewritten arguments

pi compact2: the summary, asked for as text without tools, replaces the front of the history; its tail stays. With a new user's message Qwen3's template leaves out the reasoning of earlier turns.
  063 1 after 0 root first
  064 2 after 1 realign                   1 exact
  065 3 after 2 realign                   2 exact
  066 4 after 0 root auxiliary
  067 5 after 3 split prefix_edited       3 exact
  068 6 after 5 realign                   5 exact
  builtin: 069 7 after 6 extend           6 exact
  qwen3:   069 7 after 6 split token_drift 6 exact
`

// played is an engine that answers what it is told.
type played struct {
	model  *model.Model
	said   chat.Reply
	broken bool // the next answer is cut in its middle
}

func (p *played) Info(context.Context) (engine.Info, error) {
	return engine.Info{Kind: "played", Model: "policy", EchoesIDs: true, ReturnsStop: true, Processed: true}, nil
}

func (p *played) Generate(_ context.Context, r engine.Request) (engine.Stream, error) {
	ids, err := p.model.Family.Speak(p.said)
	if err != nil {
		return nil, fault.Wrap(fault.InternalError, err, "the script")
	}
	s := &playedStream{chunk: engine.Chunk{IDs: ids, Logprobs: make([]float32, len(ids))}, end: io.EOF}
	for i := range s.chunk.Logprobs {
		s.chunk.Logprobs[i] = -0.5
	}
	s.final = engine.Final{Finish: "stop", Prompt: r.IDs, StopToken: int64(ids[len(ids)-1])}
	if p.broken {
		p.broken = false
		n := len(ids) / 2
		s.chunk.IDs, s.chunk.Logprobs, s.end = ids[:n], s.chunk.Logprobs[:n], fault.New(fault.EngineCut, "cut after %d ids", n)
	}
	return s, nil
}

type playedStream struct {
	chunk engine.Chunk
	final engine.Final
	end   error
	over  bool
}

func (s *playedStream) Next() (engine.Chunk, error) {
	if s.over {
		return engine.Chunk{}, s.end
	}
	s.over = true
	return s.chunk, nil
}
func (s *playedStream) Final() engine.Final { return s.final }
func (s *playedStream) Close() error        { return nil }

// capture is one recorded request of a harness and the answer that it got.
type capture struct {
	number string
	body   []byte
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

func (c *capture) reply() chat.Reply {
	var r chat.Reply
	if c.Spec.Reasoning != nil {
		r.Reasoning = chat.T(*c.Spec.Reasoning)
	}
	if c.Spec.Content != nil {
		r.Content = chat.T(*c.Spec.Content)
	}
	for _, call := range c.Spec.Calls {
		r.Calls = append(r.Calls, chat.Call{Name: call.Name, Arguments: call.Arguments})
	}
	return r
}

// captured lists a harness's scenarios, each with its requests in order.
func captured(t *testing.T, harness string) (names []string, scenarios map[string][]*capture) {
	t.Helper()
	dir := testkit.Captures(t, harness)
	index, err := os.ReadFile(filepath.Join(dir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(bytes.NewReader(index))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = '\t', true, -1
	rows, err := r.ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatal(len(rows), err)
	}
	scenarios = map[string][]*capture{}
	for _, row := range rows[1:] {
		c := &capture{number: row[0]}
		meta, err := os.ReadFile(filepath.Join(dir, row[0]+".meta.json"))
		if err == nil {
			err = json.Unmarshal(meta, c)
		}
		if err == nil {
			c.body, err = os.ReadFile(filepath.Join(dir, row[0]+".json"))
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

// The requests of OpenCode and Pi, byte for byte but for the call ids, through a host, with each scripted answer as the
// policy's own. Lost says that each answer is cut once on its way, and the harness asks again.
func TestE2ECapturedRequestsAreMatchedAsTheirScenariosMean(t *testing.T) {
	builtin, err := model.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	qwen, err := model.Load(testkit.Qwen3(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, harness := range []string{"opencode", "pi"} {
		names, scenarios := captured(t, harness)
		for _, name := range names {
			for at, m := range map[string]*model.Model{"builtin": builtin, "qwen3": qwen} {
				t.Run(strings.Join([]string{harness, name, at}, "/"), func(t *testing.T) {
					got, _ := replay(t, m, scenarios[name], false)
					if d := cmp.Diff(meant(harness+" "+name, at), got); d != "" {
						t.Errorf("(-meant +matched):\n%s", d)
					}
					lost, run := replay(t, m, scenarios[name], true)
					if d := cmp.Diff(shape(got), shape(lost)); d != "" {
						t.Errorf("answers that are lost once change the tree (-without +with):\n%s", d)
					}
					if n := run.Ledger.Discarded["retry_transport"]; n == 0 {
						t.Errorf("%+v", run.Ledger)
					}
				})
			}
		}
	}
}

func meant(scenario, model string) []string {
	_, part, ok := strings.Cut(means, "\n"+scenario+":")
	if !ok {
		return nil
	}
	part, _, _ = strings.Cut(part, "\n\n")
	var out []string
	for _, line := range strings.Split(strings.TrimSpace(part), "\n")[1:] {
		f := strings.Fields(line)
		if strings.HasSuffix(f[0], ":") {
			if f[0] != model+":" {
				continue
			}
			f = f[1:]
		}
		out = append(out, strings.Join(f, " "))
	}
	return out
}

// shape is a table without its numbers.
func shape(rows []string) (out []string) {
	for _, r := range rows {
		f := strings.Fields(r)
		out = append(out, f[0]+" "+f[4])
	}
	return out
}

func replay(t *testing.T, m *model.Model, scenario []*capture, lost bool) ([]string, materialize.RolloutRun) {
	t.Helper()
	p := &played{model: m}
	r := up(t, func(r *rig) { r.c.Model, r.c.Engine = m, p })
	e, err := r.host.Open(t.Context(), host.Open{Identities: trajectory.Identities{Trajectory: "t1"},
		Classify: func(c *session.CallArrived) (trajectory.Class, string) {
			if len(c.Request.Tools) == 0 {
				return trajectory.ClassAuxiliary, "no tools"
			}
			return trajectory.ClassPolicy, "tools"
		}})
	if err != nil {
		t.Fatal(err)
	}
	var from, to []string
	numbers := map[trajectory.Seq]string{}
	for _, c := range scenario {
		body := c.body
		for i := range from {
			body = bytes.ReplaceAll(body, []byte(`"`+from[i]+`"`), []byte(`"`+to[i]+`"`))
		}
		q := request{path: e.Path + "/chat/completions", token: e.Token, raw: body, header: map[string]string{}}
		for i := 0; i+1 < len(c.RawHeaders); i += 2 {
			switch strings.ToLower(c.RawHeaders[i]) {
			case "authorization", "host", "content-length", "connection", "accept-encoding":
			default:
				q.header[c.RawHeaders[i]] = c.RawHeaders[i+1]
			}
		}
		p.said = c.reply()
		if lost {
			p.broken = true
			if h := r.say(q); h.Status != http.StatusBadGateway || h.RetryIn == "" {
				t.Fatalf("%s: %+v", c.number, h)
			}
		}
		h := r.say(q)
		if h.Status != http.StatusOK || h.Cut || len(h.Calls) != len(c.IDs) {
			t.Fatalf("%s: %+v", c.number, h)
		}
		numbers[trajectory.Seq(r.calls.count())] = c.number
		for i, id := range c.IDs {
			from, to = append(from, id), append(to, h.Calls[i].ID)
		}
	}
	r.seal("t1")
	tree := r.proved("t1")
	run, err := materialize.Run(tree, materialize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, n := range tree.Turns() {
		if numbers[n.Seq] != "" {
			rows = append(rows, row(tree, n, numbers[n.Seq]))
		}
	}
	return rows, run
}

// row describes a turn as the table means does.
func row(tree *trajectory.Tree, n *trajectory.Turn, number string) string {
	c := trajectory.Continue(tree, n.Seq, trajectory.DefaultPolicy())
	out := []string{number, fmt.Sprint(n.Seq), "after", fmt.Sprint(n.Parent), string(c.Kind), c.Reason}
	for _, e := range n.Echoes {
		out = append(out, fmt.Sprint(e.Turn), string(e.Verdict), strings.Join(e.Which, " "))
	}
	return strings.Join(strings.Fields(strings.Join(out, " ")), " ")
}
