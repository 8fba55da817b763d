package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/tito-rl/tito/internal/artifact"
)

// artifactSize weighs the journal of a long trajectory, and times its end.
func artifactSize(ctx context.Context, e env) (Result, error) {
	r := Result{Title: "Artifact"}
	r.note("One trajectory through a host, over HTTP: a tool-using conversation over this repository's own source, turn by turn; about a third of the ids are sampled (real text, cut into ids by the " +
		"tokenizer), with log probabilities drawn as a language model's are spread (−exp(N(−3.5, 3)): most near 0, a long tail, all 24 bits of the mantissa in use). *A distinct token* is an id that is in the " +
		"trajectory once: new prompt ids and sampled ids. *Columns*: the turn records, which hold ids, log probabilities and facts. *Whole file*: also the messages' own bytes, tools, deliveries, frames.")
	r.note("Finish: from asking the host to seal to the end record being in the file.")
	dirs := []struct{ dir, label string }{{"builtin", "built-in tokenizer"}}
	if e.qwen3 != "" {
		dirs = append(dirs, struct{ dir, label string }{e.qwen3, "Qwen3"})
	}
	for _, d := range dirs {
		for _, tokens := range []int{100_000, 500_000} {
			if err := weigh(ctx, e, d.dir, fmt.Sprintf("%dk tokens, %s", tokens/1000, d.label), tokens, &r); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

func weigh(ctx context.Context, e env, dir, label string, tokens int, r *Result) error {
	m, err := loadModel(dir)
	if err != nil {
		return err
	}
	text, err := newReader(e.root)
	if err != nil {
		return err
	}
	s, err := serve(ctx, m, &talker{m: m, text: func() string { return text.next(3000) }, rng: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		return err
	}
	defer s.close()
	at, err := s.open(ctx)
	if err != nil {
		return err
	}
	if err := converse(ctx, at, text, tokens); err != nil {
		return err
	}
	begin := time.Now()
	if _, err := s.host.Seal(ctx, at.Trajectory, "done"); err != nil {
		return err
	}
	end := time.Since(begin)
	b, err := os.ReadFile(filepath.Join(s.dir, at.Trajectory, "trajectory.tito"))
	if err != nil {
		return err
	}
	f, err := artifact.Decode(b)
	if err != nil {
		return err
	}
	columns, distinct, sampled := 0, 0, 0
	for _, rec := range f.Records {
		if t := rec.Turn; t != nil {
			columns += rec.Size
			distinct += len(t.Suffix) + len(t.Completion)
			sampled += len(t.Completion)
		}
	}
	r.atMost(label+": columns", float64(columns)/float64(distinct), "bytes/token", 6)
	r.add(label+": whole file", float64(len(b))/float64(distinct), "bytes/token")
	r.add(label+": share of ids that were sampled", float64(sampled)/float64(distinct), "")
	if tokens == 500_000 {
		r.atMost(label+": finish", ms(end), "ms", 50)
	} else {
		r.add(label+": finish", ms(end), "ms")
	}
	return nil
}

// converse plays until the trajectory holds so many ids.
func converse(ctx context.Context, at endpoint, text *reader, tokens int) error {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	talk := newConvo("Read this project and say what it does.")
	for n := 0; n < tokens; {
		out, err := post(ctx, client, at, talk.request())
		if err != nil {
			return err
		}
		if n, err = promptTokens(out); err != nil {
			return err
		}
		if err := talk.answer(out, text.next(6000)); err != nil {
			return err
		}
	}
	return nil
}
