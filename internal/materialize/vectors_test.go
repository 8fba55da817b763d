package materialize_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

var rewrite = flag.Bool("rewrite", false, "write the vectors' expectations anew")

// vector is a file of vectors/materialize; its README says what the fields mean.
type vector struct {
	Format    string            `json:"format"`
	Comment   string            `json:"comment"`
	Family    string            `json:"family"`
	Policy    trajectory.Policy `json:"policy"`
	Reward    *float64          `json:"reward"`
	Advantage *float64          `json:"advantage"`
	Turns     []fact            `json:"turns"`
	Expect    string            `json:"expect"`
	Run       json.RawMessage   `json:"run,omitempty"`
}

type fact struct {
	Parent      trajectory.Seq   `json:"parent"`
	Why         string           `json:"why"`
	Class       trajectory.Class `json:"class"`
	Prompt      []token.ID       `json:"prompt"`
	Completion  []token.ID       `json:"completion"`
	Logprobs    []float32        `json:"logprobs"`
	RawLogprobs []float32        `json:"raw_logprobs"`
	Versions    [][]any          `json:"versions"`
	Finish      string           `json:"finish"`
	Stop        *int64           `json:"stop"`
	Calls       [][2]int         `json:"calls"`
	Delivery    string           `json:"delivery"`
	Echo        string           `json:"echo"`
	Request     string           `json:"request"`
	Key         string           `json:"key"`
	Started     int64            `json:"started"`
	Ended       int64            `json:"ended"`
	Temperature *float64         `json:"temperature"`
	TopP        *float64         `json:"top_p"`
	Processed   *bool            `json:"processed"`
	Session     string           `json:"session"`
	ParentOf    string           `json:"parent_session"`
}

// add commits the fact to a tree.
func (f fact) add(tree *trajectory.Tree) error {
	seq := trajectory.Seq(tree.Len() + 1)
	n := &trajectory.Turn{Seq: seq, Class: f.Class, Parent: f.Parent, Base: f.Parent, Why: f.Why, Completion: f.Completion,
		Logprobs: f.Logprobs, RawLogprobs: f.RawLogprobs, Prompt: trajectory.PromptEchoed, Sampling: chat.Neutral(), Processed: true,
		Finish: trajectory.Finish(f.Finish), Stop: -1, Idempotency: f.Key, Session: f.Session, ParentSession: f.ParentOf, Started: f.Started, Ended: f.Ended}
	if n.Class == "" {
		n.Class = trajectory.ClassPolicy
	}
	if n.Finish == "" {
		n.Finish = trajectory.FinishStop
	}
	if f.Stop != nil {
		n.Stop = *f.Stop
	}
	if f.Temperature != nil {
		n.Sampling.Temperature = *f.Temperature
	}
	if f.TopP != nil {
		n.Sampling.TopP = *f.TopP
	}
	if f.Processed != nil {
		n.Processed = *f.Processed
	}
	if f.Request == "" {
		f.Request = "request of turn " + string(rune('0'+seq))
	}
	asked := trajectory.HashOf([]byte(f.Request))
	n.MsgNew = []trajectory.Hash{asked}
	for _, v := range f.Versions {
		n.Versions = append(n.Versions, token.VersionSpan{Span: token.Span{Start: int(v[0].(float64)), End: int(v[1].(float64))}, Version: v[2].(string)})
	}
	for _, c := range f.Calls {
		n.Reply.Calls = append(n.Reply.Calls, trajectory.CallFact{Name: "call", Status: "ok", Span: token.Span{Start: c[0], End: c[1]}})
	}
	switch {
	case f.Parent != 0:
		if n.Why == "" {
			n.Why = trajectory.WhyEcho
		}
		if f.Echo == "" {
			f.Echo = string(trajectory.EchoExact)
		}
		if tree.Turn(f.Parent) != nil {
			n.MsgBase, n.MsgKeep = f.Parent, len(tree.Messages(f.Parent))
		}
		n.MsgNew = []trajectory.Hash{trajectory.HashOf([]byte("answer of turn " + string(rune('0'+f.Parent)))), asked}
		n.Echoes = []trajectory.Echo{{Message: n.MsgKeep, Turn: f.Parent, Verdict: trajectory.Verdict(f.Echo), By: "ids"}}
	case n.Why == "" && seq == 1:
		n.Why = trajectory.WhyFirst
	case n.Why == "":
		n.Why = trajectory.WhyNewPrompt
	}
	if tree.Turn(f.Parent) != nil {
		n.Keep = tree.Shared(f.Parent, f.Prompt)
	}
	n.Suffix = f.Prompt[n.Keep:]
	if err := tree.Add(n); err != nil {
		return err
	}
	if f.Delivery == "" {
		f.Delivery = string(trajectory.DeliveryDelivered)
	}
	return tree.SetDelivery(trajectory.DeliveryFact{Seq: seq, State: trajectory.Delivery(f.Delivery)})
}

func (v vector) run() (*trajectory.Tree, materialize.RolloutRun, error) {
	tree := trajectory.New(trajectory.Header{Identities: trajectory.Identities{Trajectory: "t", Run: "r", Group: "g"},
		Model: trajectory.ModelInfo{Family: v.Family}, Policy: v.Policy})
	for _, f := range v.Turns {
		if err := f.add(tree); err != nil {
			return nil, materialize.RolloutRun{}, err
		}
	}
	r, err := materialize.Run(tree, materialize.Options{Reward: v.Reward, Advantage: v.Advantage})
	return tree, r, err
}

func TestVectorsGiveTheRecordedRuns(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testkit.Root(), "vectors", "materialize", "*.json"))
	if err != nil || len(files) < 25 {
		t.Fatalf("found %d vectors, %v; want at least 25", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var v vector
			dec := json.NewDecoder(bytes.NewReader(text))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&v); err != nil {
				t.Fatal(err)
			}
			if v.Format != "tito-vectors/materialize/1" || v.Comment == "" {
				t.Fatalf("format %q, comment %q", v.Format, v.Comment)
			}
			_, r, err := v.run()
			if *rewrite {
				rewriteVector(t, f, text, r, err)
				return
			}
			if err != nil {
				if v.Expect != string(fault.CodeOf(err)) {
					t.Fatalf("%v; want %q", err, v.Expect)
				}
				return
			}
			if v.Expect != "run" {
				t.Fatalf("a run came out; want %q", v.Expect)
			}
			var want bytes.Buffer
			if err := json.Compact(&want, v.Run); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want.String(), string(r.AppendJSON(nil))); d != "" {
				t.Errorf("run differs (-recorded +now):\n%s", d)
			}
		})
	}
}

// rewriteVector keeps a file's facts as they stand and writes what follows from them, one segment a line.
func rewriteVector(t *testing.T, file string, text []byte, r materialize.RolloutRun, err error) {
	head, _, ok := bytes.Cut(text, []byte(`  "expect":`))
	if !ok {
		t.Fatal("no expect")
	}
	out := append(head, `  "expect": "`...)
	if err != nil {
		out = append(append(out, fault.CodeOf(err)...), "\"\n}\n"...)
	} else {
		run := r.AppendJSON(nil)
		run = bytes.ReplaceAll(run, []byte(`{"tokens"`), []byte("\n    {\"tokens\""))
		run = bytes.ReplaceAll(run, []byte(`"ledger"`), []byte("\n    \"ledger\""))
		out = append(append(append(out, "run\",\n  \"run\": "...), run...), "\n}\n"...)
	}
	if err := os.WriteFile(file, out, 0o644); err != nil {
		t.Fatal(err)
	}
}
