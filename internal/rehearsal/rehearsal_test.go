package rehearsal_test

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine/enginetest"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/token"
)

var greeting = enginetest.Prompt("say hello")

func weights(t testing.TB, p *rehearsal.Policy, params rehearsal.Params) *rehearsal.Weights {
	t.Helper()
	w, err := p.At(params)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// play samples one completion.
func play(w *rehearsal.Weights, s rehearsal.State, u func() float64) (ids []token.ID, lps []float64) {
	for c := w.Start(s); ; {
		id, lp, ok := c.Next(u())
		if !ok {
			return ids, lps
		}
		ids, lps = append(ids, id), append(lps, lp)
	}
}

// every lists all completions of a state by trying each branch.
func every(w *rehearsal.Weights, s rehearsal.State) map[string][]token.ID {
	all := map[string][]token.ID{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		ids, _ := play(w, s, rng.Float64)
		all[fmt.Sprint(ids)] = ids
	}
	return all
}

func TestTheProbabilitiesOfAllPathsSumToOne(t *testing.T) {
	p := enginetest.Book(t)
	w := weights(t, p, p.Initial("v1"))
	s := p.State(greeting)
	all := every(w, s)
	if len(all) != 8 {
		t.Fatalf("%d of 8 completions were seen", len(all))
	}
	sum := 0.0
	for _, ids := range all {
		lps, err := w.LogprobsIn(s, ids)
		if err != nil {
			t.Fatal(err)
		}
		total := 0.0
		for _, lp := range lps {
			if !(lp <= 0) {
				t.Errorf("log probability %v", lp)
			}
			total += lp
		}
		sum += math.Exp(total)
	}
	if math.Abs(sum-1) > 1e-12 {
		t.Errorf("the probabilities sum to %v", sum)
	}
	// Path probabilities are the softmax of the logits, so the trie changes nothing.
	sum = 0
	for _, share := range w.Shares(s) {
		sum += share.P
	}
	if math.Abs(sum-1) > 1e-12 {
		t.Errorf("the shares sum to %v", sum)
	}
}

func TestSamplingFollowsTheLogprobs(t *testing.T) {
	p := enginetest.Book(t)
	w := weights(t, p, p.Initial("v1"))
	s := p.State(greeting)
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 20000
	seen, prob := map[string]int{}, map[string]float64{}
	for range n {
		ids, lps := play(w, s, rng.Float64)
		key := fmt.Sprint(ids)
		seen[key]++
		total := 0.0
		for _, lp := range lps {
			total += lp
		}
		prob[key] = math.Exp(total)
	}
	chi := 0.0
	for key, q := range prob {
		d := float64(seen[key]) - n*q
		chi += d * d / (n * q)
	}
	if chi > 30 { // 7 degrees of freedom; above 30 once in ten thousand, and the seed is fixed
		t.Errorf("chi squared is %v", chi)
	}
}

func TestRecomputingGivesTheSameBits(t *testing.T) {
	p := enginetest.Book(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		params := p.Initial("v")
		for i := range params.Theta {
			params.Theta[i] = rng.NormFloat64() * 30
		}
		w := weights(t, p, params)
		ids, lps := play(w, p.State(greeting), rng.Float64)
		again, err := weights(t, p, w.Params()).Logprobs(greeting, ids)
		if err != nil {
			t.Fatal(err)
		}
		for i := range lps {
			if math.Float64bits(lps[i]) != math.Float64bits(again[i]) {
				t.Errorf("id %d: %v, then %v", i, lps[i], again[i])
			}
		}
	}
}

func TestCheckSeesOneWrongBit(t *testing.T) {
	p := enginetest.Book(t)
	w := weights(t, p, p.Initial("v1"))
	ids, lps := play(w, p.State(greeting), func() float64 { return 0.9 })
	reported := make([]float32, len(lps))
	for i, lp := range lps {
		reported[i] = float32(lp)
	}
	all := token.Span{End: len(ids)}
	if err := w.Check(greeting, ids, reported, all); err != nil {
		t.Fatal(err)
	}
	for i := range reported {
		good := reported[i]
		reported[i] = math.Float32frombits(math.Float32bits(good) ^ 1)
		if err := w.Check(greeting, ids, reported, all); fault.CodeOf(err) != fault.TrainerMismatch {
			t.Errorf("id %d: %v", i, err)
		}
		if err := w.Check(greeting, ids, reported, token.Span{Start: i + 1, End: len(ids)}); err != nil {
			t.Errorf("id %d is outside the span: %v", i, err)
		}
		reported[i] = good
	}
	if err := w.Check(greeting, ids, reported[1:], all); fault.CodeOf(err) != fault.TrainerMismatch {
		t.Errorf("too few: %v", err)
	}
}

func TestTheGradientIsThatOfFiniteDifferences(t *testing.T) {
	p := enginetest.Book(t)
	params := p.Initial("v1")
	w := weights(t, p, params)
	s := p.State(greeting)
	rng := rand.New(rand.NewPCG(7, 8))
	for _, ids := range every(w, s) {
		scale := make([]float64, len(ids))
		for i := range scale {
			scale[i] = rng.NormFloat64()
		}
		got := make([]float64, len(params.Theta))
		if err := w.GradIn(s, ids, scale, got); err != nil {
			t.Fatal(err)
		}
		value := func(j int, d float64) float64 {
			q := p.Initial("moved")
			q.Theta[j] += d
			lps, err := weights(t, p, q).LogprobsIn(s, ids)
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i, lp := range lps {
				sum += scale[i] * lp
			}
			return sum
		}
		const h = 1e-5
		for j := range got {
			if want := (value(j, h) - value(j, -h)) / (2 * h); math.Abs(got[j]-want) > 1e-8 {
				t.Errorf("parameter %s: gradient %v, finite difference %v", params.Names[j], got[j], want)
			}
		}
	}
}

func TestAscentMakesACompletionLikelier(t *testing.T) {
	p := enginetest.Book(t)
	s := p.State(greeting)
	params := p.Initial("0")
	ids, err := enginetest.Toy().Speak(chat.Reply{Content: chat.T("hello world, and more")})
	if err != nil {
		t.Fatal(err)
	}
	before := weights(t, p, params).Shares(s)[1].P
	for i := range 200 {
		w := weights(t, p, params)
		grad, scale := make([]float64, len(params.Theta)), make([]float64, len(ids))
		for j := range scale {
			scale[j] = 1
		}
		if err := w.Grad(greeting, ids, scale, grad); err != nil {
			t.Fatal(err)
		}
		if params, err = params.Ascend(fmt.Sprint(i+1), 0.2, grad); err != nil {
			t.Fatal(err)
		}
	}
	after := weights(t, p, params).Shares(s)[1]
	if before > 0.1 || after.P < 0.9 || after.Reply != "greet/0/1" {
		t.Errorf("from %v to %+v", before, after)
	}
}

func TestNextContinuesWhatWasSampled(t *testing.T) {
	p := enginetest.Book(t)
	w := weights(t, p, p.Initial("v1"))
	var ids []token.ID
	for {
		id, lp, ok, err := w.Next(greeting, ids, 0.3)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		ids = append(ids, id)
		lps, err := w.Logprobs(greeting, ids)
		if err != nil || lps[len(lps)-1] != lp {
			t.Fatalf("id %d: %v, then %v (%v)", len(ids), lp, lps, err)
		}
	}
	if _, _, _, err := w.Next(greeting, []token.ID{9}, 0); fault.CodeOf(err) != fault.TrainerMismatch {
		t.Errorf("an id that cannot be sampled: %v", err)
	}
	if _, err := w.Logprobs(greeting, append(ids, ids[0])); fault.CodeOf(err) != fault.TrainerMismatch {
		t.Errorf("an id after the stop: %v", err)
	}
	if err := w.Grad(greeting, []token.ID{9}, []float64{1}, make([]float64, len(p.Initial("").Theta))); fault.CodeOf(err) != fault.TrainerMismatch {
		t.Errorf("gradient of an id that cannot be sampled: %v", err)
	}
}

func TestExtremeLogitsStayFinite(t *testing.T) {
	p := enginetest.Book(t)
	params, err := p.Initial("v1").With("v2", map[string]float64{"greet/0/0": 2000, "greet/0/2": -2000})
	if err != nil {
		t.Fatal(err)
	}
	w := weights(t, p, params)
	ids, err := enginetest.Toy().Speak(chat.Reply{Content: chat.T("hello")})
	if err != nil {
		t.Fatal(err)
	}
	lps, err := w.Logprobs(greeting, ids)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Min(lps); got != -4000 {
		t.Errorf("lowest log probability %v, want -4000", got)
	}
	for _, u := range []float64{0, 0.5, math.Nextafter(1, 0)} {
		if got, _ := play(w, p.State(greeting), func() float64 { return u }); enginetest.Toy().Decode(got) != "hello world<|stop|>" {
			t.Errorf("u %v samples %q", u, enginetest.Toy().Decode(got))
		}
	}
}

func TestTheStateIsReadFromThePrompt(t *testing.T) {
	p := enginetest.Book(t)
	for _, c := range []struct {
		prompt []token.ID
		want   string
	}{
		{greeting, "greet/0 turn 0"},
		{enginetest.Prompt("say hello", "hello", "again"), "greet/1 turn 1"},
		{enginetest.Prompt("say hello again", "again", "more"), "greet/2 turn 1"}, // "again" only before the tail
		{enginetest.Prompt("say hello", "a", "b", "c", "d"), "default/0 turn 2"},
		{enginetest.Prompt("<|open|>A say hello"), "greet/0 turn 0"}, // a spelling opens nothing
		{enginetest.Prompt("who?", "x", "y"), "default/0 turn 1"},
		{nil, "default/0 turn 0"},
	} {
		s := p.State(c.prompt)
		if got := fmt.Sprintf("%s/%d turn %d", s.Scene, s.Step, s.Turn); got != c.want {
			t.Errorf("%q: %s, want %s", p.Decode(c.prompt), got, c.want)
		}
	}
}

func TestTheOpenerIsFound(t *testing.T) {
	render := func(ms []chat.Message) ([]token.ID, error) {
		var text []string
		for _, m := range ms {
			text = append(text, m.Content.S)
		}
		return enginetest.Prompt(text...), nil
	}
	got, err := rehearsal.FindOpener(render, enginetest.Toy().Stops)
	if diff := cmp.Diff(enginetest.Toy().Opener, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	flat := func([]chat.Message) ([]token.ID, error) { return []token.ID{1, 2, 3}, nil }
	if _, err := rehearsal.FindOpener(flat, nil); fault.CodeOf(err) != fault.BadModel {
		t.Errorf("a format without openers: %v", err)
	}
}

func TestParamsSurviveTheirFile(t *testing.T) {
	p := enginetest.Book(t)
	params := p.Initial("step 3\n\"quoted\"")
	params.Theta[0], params.Theta[1] = 0.1+0.2, -math.SmallestNonzeroFloat64
	got, err := rehearsal.ParseParams(params.Encode())
	if diff := cmp.Diff(params, got); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	if string(params.Encode()) != string(got.Encode()) {
		t.Error("encoding is not deterministic")
	}
	if _, err := p.At(got); err != nil {
		t.Error(err)
	}
	full := string(params.Encode())
	for cut := range full {
		if _, err := rehearsal.ParseParams([]byte(full[:cut])); fault.CodeOf(err) != fault.CheckpointBad {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	other := got
	other.Names = append([]string{"x"}, got.Names[1:]...)
	if _, err := p.At(other); fault.CodeOf(err) != fault.CheckpointBad {
		t.Errorf("another book's parameters: %v", err)
	}
	got.Theta[2] = math.NaN()
	if _, err := p.At(got); fault.CodeOf(err) != fault.CheckpointBad {
		t.Errorf("NaN: %v", err)
	}
	if _, err := params.Ascend("x", 1, make([]float64, 1)); fault.CodeOf(err) != fault.TrainerFailed {
		t.Errorf("short gradient: %v", err)
	}
	grad := make([]float64, len(params.Theta))
	grad[1] = math.Inf(1)
	if _, err := params.Ascend("x", 1, grad); fault.CodeOf(err) != fault.TrainerFailed {
		t.Errorf("infinite gradient: %v", err)
	}
	if _, err := params.With("x", map[string]float64{"nobody": 1}); fault.CodeOf(err) != fault.BadConfig {
		t.Errorf("unknown parameter: %v", err)
	}
}

const head = `{"format":"tito-rehearsal/1",`

func TestABadBookIsRefusedWithItsPlace(t *testing.T) {
	scene := func(replies string) string {
		return head + `"scenes":[{"name":"s","match":["m"],"steps":[{"when":{"turn":0},"replies":[` + replies + `]}]}]}`
	}
	for _, c := range []struct{ book, place string }{
		{`{`, "book"},
		{`[]`, "book"},
		{`{"format":"other/1"}`, "book.format"},
		{head + `"scens":[]}`, "scens"},
		{head + `"scenes":{}}`, "book.scenes"},
		{head + `"scenes":[{"name":"a/b","match":["m"],"steps":[]}]}`, "book.scenes[0].name"},
		{head + `"scenes":[{"name":"default","match":["m"],"steps":[{"replies":[{"content":"x"}]}]}]}`, "book.scenes[0].name"},
		{head + `"scenes":[{"name":"a","match":[],"steps":[]}]}`, "book.scenes[0].match"},
		{head + `"scenes":[{"name":"a","match":["m"],"steps":[]}]}`, "book.scenes[0].steps"},
		{scene(``), "book.scenes[0].steps[0].replies"},
		{scene(`{}`), "replies[0]"},
		{scene(`{"content":"x","weight":"1"}`), "replies[0].weight"},
		{scene(`{"content":"x","weight":1e999}`), "replies[0].weight"},
		{scene(`{"content":"x","cut":0}`), "replies[0].cut"},
		{scene(`{"content":"x","content":"y"}`), "twice"},
		{scene(`{"content":"x","name":"a"},{"content":"y","name":"a"}`), "replies[1].name"},
		{scene(`{"calls":[{"name":"bash"}]}`), "calls[0].arguments"},
		{head + `"faults":[{"kind":"nonsense"}]}`, "book.faults[0].kind"},
		{head + `"faults":[{"kind":"status","status":200}]}`, "book.faults[0].status"},
		{head + `"faults":[{"kind":"slow"}]}`, "book.faults[0].delay_ms"},
		{head + `"faults":[{"kind":"swap"}]}`, "book.faults[0].version"},
		{head + `"faults":[{"kind":"drop","after":-1}]}`, "book.faults[0].after"},
	} {
		_, err := rehearsal.ParseBook([]byte(c.book))
		if fault.CodeOf(err) != fault.BadConfig || !strings.Contains(fmt.Sprint(err), c.place) {
			t.Errorf("%s: %v does not name %s", c.book, err, c.place)
		}
	}
}

func TestFaultsAreRead(t *testing.T) {
	got, err := rehearsal.ParseFaults([]byte(`[{"kind":"swap","call":2,"after":5,"version":"v2","set":{"default/0":1.5}},
		{"kind":"status","scene":"s","turn":0,"times":1,"status":429,"retry_after_s":3},{"kind":"slow","delay_ms":20}]`))
	want := []rehearsal.Fault{
		{Kind: rehearsal.FaultSwap, Call: 2, Turn: -1, After: 5, Version: "v2", Set: map[string]float64{"default/0": 1.5}},
		{Kind: rehearsal.FaultStatus, Scene: "s", Times: 1, Status: 429, RetryAfter: 3},
		{Kind: rehearsal.FaultSlow, Turn: -1, Delay: 20},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, bad := range []string{`{}`, `[1]`, `[{"kind":"drop","set":[]}]`, `[{"kind":"drop","scene":7}]`, `[`} {
		if _, err := rehearsal.ParseFaults([]byte(bad)); fault.CodeOf(err) == "" {
			t.Errorf("%s is read", bad)
		}
	}
}

func TestABookThatCannotBePlayedIsRefused(t *testing.T) {
	for _, c := range []struct{ replies, name string }{
		{`{"content":"x"},{"content":"x"}`, "default/1"},                              // equal
		{`{"name":"long","content":"xyz"},{"content":"xyz","cut":2}`, "default/long"}, // a cut beginning of another
		{`{"name":"1","content":"x"},{"content":"y"}`, "default/1"},                   // one name twice
		{`{"content":"x","cut":2}`, "default/0"},                                      // nothing is cut
		{`{"raw":"a<|stop|>b"}`, "default/0"},                                         // a stop inside
		{`{"content":"xyz","split":"no"}`, "default/0"},                               // no such text
		{`{"content":"xyz","split":"xyz"}`, "default/0"},                              // no other ids
		{`{"calls":[{"name":"","arguments":"{}"}]}`, "default/0"},                     // the format refuses it
	} {
		b, err := rehearsal.ParseBook([]byte(head + `"default":[` + c.replies + `]}`))
		if err != nil {
			t.Fatalf("%s: %v", c.replies, err)
		}
		if _, err = rehearsal.Compile(b, enginetest.Toy()); fault.CodeOf(err) != fault.BadConfig || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: %v does not name %s", c.replies, err, c.name)
		}
	}
}

func TestAwkwardOutputsAreSpelledAsAsked(t *testing.T) {
	b, err := rehearsal.ParseBook([]byte(head + `"default":[
		{"raw":"(never closed"}, {"raw":"ends twice<|end|>"}, {"reasoning":"hm","raw":"[bash{"}, {"content":"say hello world","split":"hello"}, {"content":"cut short","cut":3}]}`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := rehearsal.Compile(b, enginetest.Toy())
	if err != nil {
		t.Fatal(err)
	}
	w := weights(t, p, p.Initial("v"))
	var got []string
	for _, ids := range every(w, p.State(nil)) {
		got = append(got, fmt.Sprintf("%s %d", p.Decode(ids), len(ids)))
	}
	slices.Sort(got)
	// "hello" is one id in the toy format; split, it is five.
	want := []string{"(hm)[bash{<|stop|> 11", "(never closed<|stop|> 14", "cut 3", "ends twice<|end|> 11", "say hello world<|stop|> 11"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheBuiltInBooksCanBePlayed(t *testing.T) {
	var books []*rehearsal.Book
	err := fs.WalkDir(builtin.Tasks, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "rehearsal.json" {
			return err
		}
		data, err := fs.ReadFile(builtin.Tasks, path)
		if err != nil {
			return err
		}
		b, err := rehearsal.ParseBook(data)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		books = append(books, b)
		return nil
	})
	if err != nil || len(books) < 8 {
		t.Fatalf("%d books: %v", len(books), err)
	}
	m, err := rehearsal.Merge(books...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rehearsal.Compile(m, enginetest.Toy()); err != nil {
		t.Error(err)
	}
}

func TestBooksMerge(t *testing.T) {
	parse := func(name string) *rehearsal.Book {
		b, err := rehearsal.ParseBook([]byte(head + `"scenes":[{"name":"` + name + `","match":["m"],"steps":[{"replies":[{"content":"x"}]}]}],"default":[{"content":"` + name + `"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	m, err := rehearsal.Merge(parse("a"), parse("b"))
	if err != nil || len(m.Scenes) != 2 || len(m.Default) != 2 {
		t.Fatalf("%+v %v", m, err)
	}
	p, err := rehearsal.Compile(m, enginetest.Toy())
	if err != nil {
		t.Fatalf("merged defaults: %v", err)
	}
	want := []string{"default/0", "default/1", "a/0/0", "b/0/0"}
	if diff := cmp.Diff(want, p.Initial("v").Names); diff != "" {
		t.Error(diff)
	}
	if _, err := rehearsal.Merge(parse("a"), parse("a")); fault.CodeOf(err) != fault.BadConfig {
		t.Errorf("one name twice: %v", err)
	}
}

func FuzzParseBook(f *testing.F) {
	f.Add([]byte(head + `"scenes":[{"name":"s","match":["m"],"steps":[{"when":{"turn":0,"contains":"c"},"replies":[{"content":"x","weight":1.5},{"raw":"r","cut":1},{"reasoning":"r","calls":[{"name":"n","arguments":"{"}]}]}]}],"faults":[{"kind":"swap","version":"v","set":{"default/0":1}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		book, err := rehearsal.ParseBook(b)
		if err != nil {
			if fault.CodeOf(err) != fault.BadConfig && fault.CodeOf(err) != fault.BadRequest {
				t.Fatalf("code %s", fault.CodeOf(err))
			}
			return
		}
		p, err := rehearsal.Compile(book, enginetest.Toy())
		if err != nil {
			return
		}
		w := weights(t, p, p.Initial("v"))
		for _, prompt := range [][]token.ID{nil, enginetest.Prompt("m"), enginetest.Prompt("m", "x", "c")} {
			ids, lps := play(w, p.State(prompt), func() float64 { return 0.5 })
			again, err := w.Logprobs(prompt, ids)
			if err != nil || !slices.Equal(again, lps) {
				t.Fatalf("%v, then %v (%v)", lps, again, err)
			}
		}
	})
}

func FuzzParseParams(f *testing.F) {
	f.Add(rehearsal.Params{Version: "v", Names: []string{"default/0"}, Theta: []float64{1.5}}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := rehearsal.ParseParams(b); err == nil && string(p.Encode()) != string(b) {
			t.Fatal("what was read is not what is written")
		}
	})
}
