package model

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/family/all"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Report says what a model's directory has and lacks.
type Report struct {
	Dir       string         `json:"dir"`
	Usable    bool           `json:"usable"` // whether Load reads it
	Can       []string       `json:"can"`    // the commands that it is enough for
	Files     []FileInfo     `json:"files"`
	Tokenizer *TokenizerInfo `json:"tokenizer"` // nil where it cannot be read
	Template  *TemplateInfo  `json:"template"`  // nil where there is none
	Family    string         `json:"family"`    // the format that reads it, or ""
	Families  []FamilyInfo   `json:"families"`  // every format that was tried
	Stops     []StopInfo     `json:"stops"`     // the ids at which the family ends a reply
	Ends      []EndInfo      `json:"ends"`      // the ids at which an engine ends one by itself
	Sampling  []SamplingInfo `json:"sampling"`  // defaults under which an engine would not sample from the policy itself
	Problems  []Problem      `json:"problems"`
	Err       error          `json:"-"` // the first problem: what Load says
}

// FileInfo is a file that prompts depend on.
type FileInfo struct {
	Name   string `json:"name"`
	Found  bool   `json:"found"`
	Bytes  int    `json:"bytes,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// TokenizerInfo is what a tokenizer.json holds.
type TokenizerInfo struct {
	Constructs
	Vocabulary int `json:"vocabulary"` // 1 + the highest id
	Added      int `json:"added"`
	Special    int `json:"special"` // of the added tokens
	Flagged    int `json:"flagged"` // added tokens that strip white space, match whole words, or match normalised text
}

// Constructs are the parts of a tokenizer.json by their types.
type Constructs struct {
	Kind          string   `json:"kind"`
	Normalizer    []string `json:"normalizer"`
	PreTokenizer  []string `json:"pre_tokenizer"`
	Decoder       []string `json:"decoder"`
	PostProcessor []string `json:"post_processor"`
}

// TemplateInfo is a chat template.
type TemplateInfo struct {
	File     string `json:"file"`
	Bytes    int    `json:"bytes"`
	SHA256   string `json:"sha256"`
	Compiles bool   `json:"compiles"`
	Clock    bool   `json:"clock"` // it asks for the time
}

// FamilyInfo says whether a chat format reads the model, and why not.
type FamilyInfo struct {
	Name  string `json:"name"`
	Reads bool   `json:"reads"`
	Why   string `json:"why,omitempty"`
}

// StopInfo is a stop of the family.
type StopInfo struct {
	ID   uint32          `json:"id"`
	Text string          `json:"text"`
	Kind family.StopKind `json:"kind"`
}

// EndInfo is a token at which the files tell an engine to stop.
type EndInfo struct {
	File string `json:"file"`
	Says string `json:"says"` // as it is written there
	Stop bool   `json:"stop"` // whether the family ends a reply with it
}

// SamplingInfo is a default that an engine may take from the directory.
type SamplingInfo struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Neutral string `json:"neutral"` // the value under which tokens are drawn from the policy itself
}

// Problem is something that is wrong.
type Problem struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
}

// Check looks at a directory as [Load] does, and goes on where Load would end. The error is fault.FileMissing where the
// directory itself cannot be read.
func Check(dir string) (*Report, error) {
	d, name, err := open(dir)
	if err != nil {
		return nil, err
	}
	return d.check(name), nil
}

// CheckBuiltin is Check of the model that the binary carries.
func CheckBuiltin() (*Report, error) {
	d, err := bundled()
	if err != nil {
		return nil, err
	}
	return d.check(BuiltinName), nil
}

func (d directory) check(name string) *Report {
	r := &Report{Dir: d.where, Can: []string{}, Families: []FamilyInfo{}, Stops: []StopInfo{}, Ends: []EndInfo{},
		Sampling: []SamplingInfo{}, Problems: []Problem{}}
	file := tokenizerFile
	if s, err := d.source(); err == nil {
		file = s.name
	}
	for _, n := range []string{file, configFile, templateFile, generationFile} {
		b, err := d.read(n)
		r.fails(err)
		f := FileInfo{Name: n, Found: b != nil, Bytes: len(b)}
		if b != nil {
			f.SHA256 = digest(b)
		}
		r.Files = append(r.Files, f)
	}
	tok, src, cfg, err := d.tokenizer()
	if r.fails(err); err == nil {
		r.Tokenizer = describe(tok, d, src)
		r.Can = append(r.Can, "encode", "decode")
	} else {
		cfg, err = d.config() // what it says of the template is still of use
		r.fails(err)
	}
	tpl := r.template(d, cfg)
	g, err := d.object(generationFile)
	r.fails(err)
	r.sampling(g)
	m := &Model{Name: name, Tokenizer: tok}
	if tok != nil && tpl != nil {
		r.families(m, tpl, cfg)
	}
	r.ends(d, cfg, g, m)
	r.Usable = r.Err == nil
	if r.Usable {
		r.Can = append(r.Can, "sidecar", "run", "trial")
	}
	return r
}

// fails notes an error, once.
func (r *Report) fails(err error) {
	if err == nil {
		return
	}
	p := Problem{fault.CodeOf(err), err.Error()}
	if slices.Contains(r.Problems, p) {
		return
	}
	r.Problems = append(r.Problems, p)
	if r.Err == nil {
		r.Err = err
	}
}

func (r *Report) template(d directory, cfg config) *template.Template {
	src, err := d.template(cfg)
	if err != nil {
		r.fails(err)
		return nil
	}
	r.Template = &TemplateInfo{File: configFile, Bytes: len(src), SHA256: digest([]byte(src)), Clock: strings.Contains(src, "strftime_now")}
	if r.Files[2].Found {
		r.Template.File = templateFile
	}
	tpl, err := template.Compile(src)
	if err != nil {
		r.fails(fault.Wrap(fault.BadTemplate, err, "%s", d.where))
		return nil
	}
	r.Template.Compiles = true
	return tpl
}

func (r *Report) families(m *Model, tpl *template.Template, cfg config) {
	o := family.Options{Tokens: cfg.tokens}
	for _, row := range all.Rows() {
		f, err := row.New(m.Tokenizer, tpl, o)
		info := FamilyInfo{Name: row.Name, Reads: err == nil}
		if err != nil {
			info.Why = err.Error()
		} else if m.Family == nil {
			m.Family = f
		}
		r.Families = append(r.Families, info)
	}
	if m.Family == nil {
		_, err := all.New(m.Tokenizer, tpl, o)
		r.fails(fault.Wrap(fault.UnknownFamily, err, "%s", r.Dir))
		return
	}
	r.Family = m.Family.Name()
	m.Info.Family = r.Family
	r.Can = append(r.Can, "render", "parse")
	for _, s := range m.Family.Stops() {
		m.Stops = append(m.Stops, s.ID)
		r.Stops = append(r.Stops, StopInfo{uint32(s.ID), s.Text, s.Kind})
	}
}

func (r *Report) ends(d directory, cfg config, generation ojson.Value, m *Model) {
	if cfg.eos != "" {
		e := EndInfo{File: configFile, Says: cfg.eos}
		if m.Tokenizer != nil {
			id, ok := m.Tokenizer.Lookup(cfg.eos)
			e.Stop = ok && slices.Contains(m.Stops, id)
		}
		r.Ends = append(r.Ends, e)
	}
	for _, v := range eosIDs(generation) {
		id, err := tokenID(v)
		r.Ends = append(r.Ends, EndInfo{generationFile, string(v.Raw()), err == nil && slices.Contains(m.Stops, id)})
	}
	if m.Family != nil {
		r.fails(d.checkEnds(cfg, m))
	}
}

// neutral are the settings of generation_config.json that change what is sampled, each with the values that change nothing.
var neutral = []struct {
	key    string
	values []string
}{
	{"do_sample", []string{"true"}}, {"temperature", []string{"1"}}, {"top_k", []string{"0", "-1"}}, {"top_p", []string{"1"}},
	{"min_p", []string{"0"}}, {"typical_p", []string{"1"}}, {"epsilon_cutoff", []string{"0"}}, {"eta_cutoff", []string{"0"}},
	{"repetition_penalty", []string{"1"}}, {"presence_penalty", []string{"0"}}, {"frequency_penalty", []string{"0"}},
	{"encoder_repetition_penalty", []string{"1"}}, {"no_repeat_ngram_size", []string{"0"}}, {"length_penalty", []string{"1"}},
	{"num_beams", []string{"1"}}, {"diversity_penalty", []string{"0"}}, {"penalty_alpha", []string{"0"}}, {"guidance_scale", []string{"1"}},
	{"min_length", []string{"0"}}, {"min_new_tokens", []string{"0"}}, {"bad_words_ids", nil}, {"sequence_bias", nil},
	{"suppress_tokens", nil}, {"begin_suppress_tokens", nil}, {"forced_bos_token_id", nil}, {"forced_eos_token_id", nil},
}

func (r *Report) sampling(generation ojson.Value) {
	for _, n := range neutral {
		v, ok := generation.Get(n.key)
		if !ok || v.Kind() == ojson.Null || v.Len() == 0 && (v.Kind() == ojson.Array || v.Kind() == ojson.Object) {
			continue
		}
		is := "null"
		same := false
		for i, lit := range n.values {
			want, err := ojson.Parse([]byte(lit))
			same = same || err == nil && ojson.Equal(v, want)
			if i == 0 {
				is = lit
			}
		}
		if !same {
			r.Sampling = append(r.Sampling, SamplingInfo{n.key, string(v.Raw()), is})
		}
	}
}

func describe(tok *tokenizer.Tokenizer, d directory, s source) *TokenizerInfo {
	out := &TokenizerInfo{Constructs: Constructs{s.name, []string{}, []string{}, []string{}, []string{}}, Vocabulary: tok.VocabSize()}
	if s.name == tokenizerFile {
		data, _ := d.read(s.name)
		out.Constructs = constructs(data)
	}
	for _, a := range tok.Added() {
		out.Added++
		if a.Special {
			out.Special++
		}
		if a.LStrip || a.RStrip || a.SingleWord || a.Normalized {
			out.Flagged++
		}
	}
	return out
}

// component is a part of a tokenizer.json, or a sequence of parts.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	Pretokenizers []component `json:"pretokenizers"`
	Decoders      []component `json:"decoders"`
	Processors    []component `json:"processors"`
}

func (c *component) types() []string {
	out := []string{}
	if c == nil {
		return out
	}
	if c.Type != "Sequence" {
		return append(out, c.Type)
	}
	for _, s := range slices.Concat(c.Normalizers, c.Pretokenizers, c.Decoders, c.Processors) {
		out = append(out, s.types()...)
	}
	return out
}

func constructs(data []byte) Constructs {
	var f struct {
		Normalizer    *component `json:"normalizer"`
		PreTokenizer  *component `json:"pre_tokenizer"`
		Decoder       *component `json:"decoder"`
		PostProcessor *component `json:"post_processor"`
		Model         struct {
			Type         string `json:"type"`
			ByteFallback bool   `json:"byte_fallback"`
			IgnoreMerges bool   `json:"ignore_merges"`
		} `json:"model"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return Constructs{Kind: "unknown"}
	}
	c := Constructs{Normalizer: f.Normalizer.types(), PreTokenizer: f.PreTokenizer.types(), Decoder: f.Decoder.types(), PostProcessor: f.PostProcessor.types()}
	c.Kind = f.Model.Type
	if c.Kind == "" {
		c.Kind = "BPE"
	}
	switch {
	case slices.Contains(c.PreTokenizer, "ByteLevel"):
		c.Kind = "byte-level " + c.Kind
	case f.Model.ByteFallback:
		c.Kind += " with byte fallback"
	}
	if f.Model.IgnoreMerges {
		c.Kind += ", ignoring merges of whole words"
	}
	return c
}
