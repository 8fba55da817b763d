package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// oracle runs oracle.py and reads its times, in seconds.
func oracle(ctx context.Context, e env, args ...string) (map[string]float64, error) {
	cmd := exec.CommandContext(ctx, e.python, append([]string{filepath.Join(e.root, "bench", "oracle.py")}, args...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("oracle.py: %w\n%s", err, log.String())
	}
	var times map[string]float64
	return times, json.Unmarshal(out, &times)
}

// timing is what one side of a comparison of tokenizers took, in seconds.
type timing struct{ load, encode, fast float64 }

// tokenizerSpeed encodes the same texts here and with Hugging Face's tokenizers, each side in fresh processes on one core.
func tokenizerSpeed(ctx context.Context, e env) (Result, error) {
	r := Result{Title: "Tokenizer"}
	if e.qwen3 == "" || e.python == "" {
		r.note("Skipped: Qwen3's tokenizer or Python is not installed (`make deps`).")
		return r, nil
	}
	r.note("Qwen3's tokenizer.json; the same texts, document by document, in fresh processes that see each text once (cold), on one core: tito with GOMAXPROCS=1, its collector included; " +
		"Hugging Face tokenizers 0.22.2 from Python without threads, by `encode`, and by `encode_batch_fast`, which computes no offsets. Times are processor times of the process, so that other work on the machine does not count. The two take turns three times; medians. The ids are compared.")
	packages := filepath.Join(e.root, ".deps", "npm", "node_modules")
	for _, c := range []struct {
		name string
		exts []string
		dirs []string
	}{
		{"source code (Go, JavaScript, TypeScript)", []string{".go", ".js", ".ts"}, []string{filepath.Join(e.root, "internal"), filepath.Join(packages, "openai"), filepath.Join(packages, "@google")}},
		{"prose (Markdown)", []string{".md"}, []string{e.root, packages}},
	} {
		texts, err := sources(800<<10, c.exts, c.dirs...)
		if err != nil {
			return r, err
		}
		if err := compareTokenizers(ctx, e, c.name, texts, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

func compareTokenizers(ctx context.Context, e env, name string, texts []string, r *Result) error {
	dir, err := os.MkdirTemp("", "tito-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := func(n string) string { return filepath.Join(dir, n) }
	docs, size := []byte{'['}, 0
	for i, t := range texts {
		if i > 0 {
			docs = append(docs, ',')
		}
		docs, size = ojson.AppendString(docs, t), size+len(t)
	}
	if err := os.WriteFile(path("docs"), append(docs, ']'), 0o644); err != nil {
		return err
	}
	var ours, theirs []timing
	for range 3 {
		a, err := oracle(ctx, e, "tokens", e.qwen3, path("docs"), path("theirs"))
		if err != nil {
			return err
		}
		theirs = append(theirs, timing{a["load"], a["encode"], a["fast"]})
		b, err := encodeApart(ctx, e.qwen3, path("docs"), path("ours"))
		if err != nil {
			return err
		}
		ours = append(ours, b)
	}
	same, ids, err := sameFile(path("ours"), path("theirs"))
	if err != nil {
		return err
	}
	if !same {
		return errors.New("the ids differ")
	}
	mid := func(v []timing, of func(timing) float64) float64 {
		var all []float64
		for _, t := range v {
			all = append(all, of(t))
		}
		return median(all)
	}
	enc, mb := func(t timing) float64 { return t.encode }, float64(size)/1e6
	us, hf, fast := mid(ours, enc), mid(theirs, enc), mid(theirs, func(t timing) float64 { return t.fast })
	r.add(name+": tito", mb/us, "MB/s")
	r.atLeast(name+": ratio to `encode`", hf/us, "×", 5)
	r.atLeast(name+": ratio to `encode_batch_fast`", fast/us, "×", 5)
	r.add(name+": ids compared, all equal", float64(ids), "ids")
	if len(r.Figures) == 4 {
		load := func(t timing) float64 { return t.load }
		r.atMost("load of tokenizer.json", 1000*mid(ours, load), "ms", 500)
		r.add("load of tokenizer.json, ratio to Hugging Face's", mid(theirs, load)/mid(ours, load), "×")
	}
	return nil
}

func sameFile(a, b string) (same bool, ids int, err error) {
	x, err := os.ReadFile(a)
	if err != nil {
		return false, 0, err
	}
	y, err := os.ReadFile(b)
	return bytes.Equal(x, y), len(x) / 4, err
}

// encodeApart runs this program again, on one core, to encode the texts.
func encodeApart(ctx context.Context, model, docs, out string) (timing, error) {
	self, err := os.Executable()
	if err != nil {
		return timing{}, err
	}
	cmd := exec.CommandContext(ctx, self, "encode", model, docs, out)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return timing{}, err
	}
	var t timing
	_, err = fmt.Sscan(string(b), &t.load, &t.encode)
	return t, err
}

// encodeFiles is that run: model folder, texts as a JSON array, file for the ids. It prints the seconds of loading and encoding.
func encodeFiles(args []string) error {
	if len(args) != 3 {
		return errors.New("encode MODEL TEXTS OUT")
	}
	data, err := os.ReadFile(filepath.Join(args[0], "tokenizer.json"))
	if err != nil {
		return err
	}
	b, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var docs []string
	if err := json.Unmarshal(b, &docs); err != nil {
		return err
	}
	begin := cpuTime()
	tok, err := tokenizer.Load(data)
	if err != nil {
		return err
	}
	load := cpuTime() - begin
	all := make([][]token.ID, len(docs))
	begin = cpuTime()
	for i, d := range docs {
		all[i] = tok.Encode(d)
	}
	encode := cpuTime() - begin
	fmt.Println(load.Seconds(), encode.Seconds())
	var out []byte
	for _, ids := range all {
		for _, id := range ids {
			out = binary.LittleEndian.AppendUint32(out, uint32(id))
		}
	}
	return os.WriteFile(args[2], out, 0o644)
}

// templateSpeed renders one conversation with Qwen3's template here and in Python.
func templateSpeed(ctx context.Context, e env) (Result, error) {
	r := Result{Title: "Chat template"}
	if e.qwen3 == "" || e.python == "" {
		r.note("Skipped: Qwen3's tokenizer or Python is not installed (`make deps`).")
		return r, nil
	}
	r.note("Qwen3's chat template on one conversation with tools; Jinja2 3.1.6 as transformers 4.57.1 sets it up, compiled once. Medians of the processor time of 60 renders, each side in its own process; the texts are compared.")
	src, err := qwen3Template(e.qwen3)
	if err != nil {
		return r, err
	}
	text, err := newReader(e.root)
	if err != nil {
		return r, err
	}
	for _, rounds := range []int{10, 160} {
		vars := conversation(rounds, text)
		us, them, err := compareTemplates(ctx, e, src, vars)
		if err != nil {
			return r, err
		}
		at := strconv.Itoa(rounds) + " rounds of call and result, " + strconv.Itoa(len(vars)>>10) + " kB: "
		r.add(at+"tito", 1000*us, "ms")
		r.add(at+"ratio to Jinja2", them/us, "×")
	}
	return r, nil
}

func qwen3Template(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil {
		return "", err
	}
	var c struct {
		Template string `json:"chat_template"`
	}
	err = json.Unmarshal(b, &c)
	return c.Template, err
}

// conversation is the template's variables, as JSON.
func conversation(rounds int, text *reader) []byte {
	b := []byte(`{"add_generation_prompt":true,"tools":[` + toolsJSON + `],"messages":[{"role":"system","content":`)
	b = append(ojson.AppendString(b, systemPrompt), `},{"role":"user","content":"Read this project and say what it does."}`...)
	for i := range rounds {
		b = append(b, `,{"role":"assistant","content":"I look at the next part.","tool_calls":[{"type":"function","function":{"name":"bash","arguments":{"command":"sed -n `...)
		b = append(strconv.AppendInt(b, int64(i), 10), `p main.go"}}}]},{"role":"tool","content":`...)
		b = append(ojson.AppendString(b, text.next(2400)), '}')
	}
	return append(b, "]}"...)
}

func compareTemplates(ctx context.Context, e env, src string, vars []byte) (us, them float64, err error) {
	dir, err := os.MkdirTemp("", "tito-bench-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	source, variables, out := filepath.Join(dir, "template"), filepath.Join(dir, "variables"), filepath.Join(dir, "out")
	if err := errors.Join(os.WriteFile(source, []byte(src), 0o644), os.WriteFile(variables, vars, 0o644)); err != nil {
		return 0, 0, err
	}
	times, err := oracle(ctx, e, "template", source, variables, out)
	if err != nil {
		return 0, 0, err
	}
	want, err := os.ReadFile(out)
	if err != nil {
		return 0, 0, err
	}
	tpl, err := template.Compile(src)
	if err != nil {
		return 0, 0, err
	}
	v, err := ojson.Parse(vars)
	if err != nil {
		return 0, 0, err
	}
	clock := template.Clock{Year: 2026, Month: 1, Day: 1, Weekday: 4, YearDay: 1}
	var took []float64
	for range 60 {
		begin := cpuTime()
		got, err := tpl.Render(v.Members(), clock)
		took = append(took, (cpuTime() - begin).Seconds())
		if err != nil {
			return 0, 0, err
		}
		if got != string(want) {
			return 0, 0, errors.New("the texts differ")
		}
	}
	slices.Sort(took)
	return quantile(took, 0.5), times["render"], nil
}
