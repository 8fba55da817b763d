package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/engine/enginetest"
	playing "github.com/tito-rl/tito/internal/engine/rehearsal"
	"github.com/tito-rl/tito/internal/engine/vllm"
)

// BenchmarkTurn is one turn of a long tool loop over loopback: a request with the whole history comes in, a reply of a few
// tokens goes out. "engine" sends the same ids to the engine's HTTP face directly, "host" goes through a host to the same
// engine; the difference is what a host adds. Every turn has another last message.
func BenchmarkTurn(b *testing.B) {
	for _, c := range []struct {
		name        string
		tokens, out int // of the history; of each tool's output
	}{{"8k", 8 << 10, 200}, {"128k", 128 << 10, 3000}} {
		b.Run(c.name, func(b *testing.B) {
			last := &keeps{}
			r := up(b, func(r *rig) {
				r.c.Engine = brief(b, r)
				r.wrap = func(e engine.Engine) engine.Engine { last.Engine = e; return last }
			})
			post := grown(b, r, last, c.tokens, c.out)
			b.Run("host", func(b *testing.B) {
				measure(b, func(i int) { post(fmt.Sprintf("%s-%d-%d", b.Name(), b.N, i)) })
			})
			b.Run("engine", func(b *testing.B) {
				req := last.last
				req.MaxTokens = 100
				measure(b, func(int) {
					if got := enginetest.Collect(b.Context(), last.Engine, req); got.Code != "" || len(got.IDs) == 0 {
						b.Fatal(got.Code)
					}
				})
			})
		})
	}
}

// brief is an engine behind HTTP that calls a tool each time, whatever it is asked.
func brief(b *testing.B, r *rig) engine.Engine {
	p := policyOf(b, r.c.Model, `{"format": "tito-rehearsal/1", "scenes": [], "default": [{"calls": [{"name": "bash", "arguments": "{\"command\": \"ls\"}"}]}]}`)
	e, err := playing.New(playing.Config{Policy: p, Params: p.Initial("v1"), MaxContext: 1 << 20, Chunk: 64})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(e.Handler())
	client, err := vllm.New(vllm.Config{URL: srv.URL, Processed: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.CloseIdle(); srv.Close() })
	return client
}

// keeps remembers the last request.
type keeps struct {
	engine.Engine
	last engine.Request
}

func (k *keeps) Generate(ctx context.Context, r engine.Request) (engine.Stream, error) {
	k.last = r
	return k.Engine.Generate(ctx, r)
}

// grown plays a tool loop until its prompt has so many tokens, and returns what makes one more turn at its end.
func grown(b *testing.B, r *rig, last *keeps, tokens, out int) (post func(string)) {
	e := r.open("t1")
	talk := user("please count the files")
	for len(last.last.IDs) < tokens {
		h := r.say(ask(e, talk, false))
		if h.Status != http.StatusOK || len(h.Calls) != 1 {
			b.Fatalf("%+v", h)
		}
		more := h.echo()
		var text strings.Builder
		for i := range out / 8 {
			fmt.Fprintf(&text, "line %d of the file\n", i+len(talk))
		}
		more[1].(map[string]any)["content"] = text.String()
		talk = append(talk, more...)
	}
	list, err := json.Marshal(talk)
	if err != nil {
		b.Fatal(err)
	}
	decl, err := json.Marshal(tools)
	if err != nil {
		b.Fatal(err)
	}
	return func(text string) {
		body := slices.Concat([]byte(`{"model":"policy","tools":`), decl, []byte(`,"messages":`), list[:len(list)-1],
			fmt.Appendf(nil, `,{"role":"user","content":%q}]}`, text))
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, r.base+e.Path+"/chat/completions", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+e.Token)
		res, err := r.client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		<-r.served
		<-r.arrived
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
	}
}

// measure times each run by itself, so that the slowest show.
func measure(b *testing.B, one func(i int)) {
	b.ReportAllocs()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		at := time.Now()
		one(i)
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[len(took)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
	}
}
