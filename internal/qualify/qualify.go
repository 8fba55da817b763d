// Package qualify makes certificates: what a machine has proved of a model's tokenizer, template and settings, and which
// prompt modes that allows. The proofs themselves are internal/certify's; this package adds files, references and engines.
//
// A certificate says nothing about another program, template, tokenizer or setting than those that it is keyed by.
package qualify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/certify"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/ojson"
)

// Version is that of the certificate's format: spec/certificate.md.
const Version = 1

// Certificate is what was proved. The same inputs give the same bytes.
type Certificate struct {
	Format    string             `json:"format"` // tito-certificate
	Version   int                `json:"version"`
	Key       string             `json:"key"` // sha256 of the pins
	Pins      Pins               `json:"pins"`
	Allowed   Allowed            `json:"allowed"`
	Levels    []certify.Level    `json:"levels"`
	Junctions []certify.Junction `json:"junctions"`
	Branches  *certify.Branches  `json:"branches"`            // of the template, reached by the probes; null = not known
	Digest    string             `json:"digest"`              // of every text and id that the pure levels rendered
	Reference string             `json:"reference,omitempty"` // what L1 was compared with
	Engine    *engine.Info       `json:"engine,omitempty"`    // that L5 ran on
	// Surprises are claims that were expected to be refuted and are not, and the other way round.
	Surprises []string `json:"surprises"`
}

// Pins are all that a certificate depends on.
type Pins struct {
	Files     map[string]string `json:"files"`     // sha256 by name, of the files that prompts depend on
	Tokenizer string            `json:"tokenizer"` // sha256 of the tokenizer's file
	Template  string            `json:"template"`  // sha256 of the template's source
	Family    string            `json:"family"`
	Kwargs    json.RawMessage   `json:"kwargs"`
	Code      string            `json:"code"` // the program that proved it
}

// Key is the certificate's key.
func (p Pins) Key() string {
	b, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return digest(b)
}

// Allowed is what the proof allows.
type Allowed struct {
	FullHistory bool `json:"full_history"`
	// Incremental lists the kinds of append that may follow a checkpoint, in conversations with and without tools.
	Incremental map[string][]string `json:"incremental"`
	// Needs are conditions under which this holds: frozen_clock.
	Needs []string `json:"needs"`
}

// The keys of Allowed.Incremental.
const (
	WithTools    = "with_tools"
	WithoutTools = "without_tools"
)

// Options say what is certified, and with what help.
type Options struct {
	Dir    string      // the model's folder, or builtin
	Kwargs ojson.Value // template settings; the zero Value for none
	Code   string      // names the program
	Python string      // an interpreter with transformers, for L1; "" = none
	Engine engine.Engine
	Model  string // name that the engine serves
	Known  []Known
	// Recorded are references by which L1 is decided without Python.
	Recorded []Recorded
}

// Known is a refutation that is expected, and why.
type Known struct {
	Template string            `json:"template"` // sha256
	Name     string            `json:"name"`     // for people
	Kwargs   json.RawMessage   `json:"kwargs"`
	Refuted  map[string]string `json:"refuted"` // why, by claim
}

// Run certifies. An error means that nothing could be looked at; what was refuted is in the certificate.
func Run(ctx context.Context, o Options) (*Certificate, error) {
	m, f, err := load(o.Dir)
	if err != nil {
		return nil, err
	}
	kwargs := json.RawMessage("{}")
	if o.Kwargs.IsValid() {
		if o.Kwargs.Kind() != ojson.Object {
			return nil, fault.New(fault.BadFlag, "template settings are no JSON object")
		}
		if kwargs, err = compact(o.Kwargs); err != nil {
			return nil, err
		}
	}
	c := &Certificate{
		Format: "tito-certificate", Version: Version, Surprises: []string{},
		Pins: Pins{Files: f.sums, Tokenizer: m.Info.Tokenizer, Template: m.Info.Template, Family: m.Family.Name(), Kwargs: kwargs, Code: o.Code},
	}
	c.Key = c.Pins.Key()
	subject := certify.Model{Family: m.Family, Tokenizer: m.Tokenizer, Kwargs: o.Kwargs, BOS: f.tokens["bos_token"]}
	l5, info, err := engaged(ctx, o, m, subject) // first: it may be out of reach
	if err != nil {
		return nil, err
	}
	r := certify.Prove(subject)
	c.Junctions, c.Branches, c.Digest = certify.Junctions(subject), r.Branches, r.Digest
	if c.Junctions == nil {
		c.Junctions = []certify.Junction{}
	}
	parity, ref, err := parity(ctx, o, m, f, subject)
	if err != nil {
		return nil, err
	}
	c.Reference = ref
	for i := range r.Levels {
		if l := &r.Levels[i]; l.Level == "L1" {
			l.Claims = append([]certify.Claim{parity}, l.Claims...)
			if parity.Verdict == certify.Refuted {
				l.Verdict = certify.Refuted
			}
			if parity.Verdict == certify.NotAttempted {
				l.Why = "parity with a reference is not proved: " + parity.Why
			}
		}
	}
	c.Levels = append([]certify.Level{pinned(f)}, r.Levels...)
	c.Levels, c.Engine = append(c.Levels, l5), info
	c.expect(o.Known)
	c.Allowed = allowed(c.Levels)
	return c, nil
}

func pinned(f *files) certify.Level {
	l := certify.Level{Level: "L0", About: "pins: what the certificate depends on is named by hash", Verdict: certify.Proved, Claims: []certify.Claim{}}
	for _, name := range f.names() {
		l.Claims = append(l.Claims, certify.Claim{Claim: "pinned." + name, Verdict: certify.Proved, Binds: true, Cases: 1})
	}
	return l
}

// claim finds a claim.
func (c *Certificate) claim(name string) *certify.Claim { return find(c.Levels, name) }

func find(ls []certify.Level, name string) *certify.Claim {
	for _, l := range ls {
		for i := range l.Claims {
			if l.Claims[i].Claim == name {
				return &l.Claims[i]
			}
		}
	}
	return nil
}

// expect compares the refutations with those that are known.
func (c *Certificate) expect(known []Known) {
	for _, k := range known {
		if k.Template != c.Pins.Template || !sameJSON(k.Kwargs, c.Pins.Kwargs) {
			continue
		}
		for _, l := range c.Levels {
			for i := range l.Claims {
				x := &l.Claims[i]
				why, expected := k.Refuted[x.Claim]
				switch {
				case expected && x.Verdict == certify.Refuted:
					x.Known = why
				case expected:
					c.Surprises = append(c.Surprises, x.Claim+" is "+string(x.Verdict)+", though it is known to be refuted: "+why)
				case x.Verdict == certify.Refuted:
					c.Surprises = append(c.Surprises, x.Claim+" is refuted, and was not known to be")
				}
			}
		}
	}
	slices.Sort(c.Surprises)
}

// allowed is what the levels allow: full_history unless a claim that binds is refuted at L0, L1 or L5; a kind of append
// where its own claims are proved, and L3 to L5 refute nothing that it needs.
func allowed(ls []certify.Level) Allowed {
	a := Allowed{FullHistory: true, Incremental: map[string][]string{WithTools: {}, WithoutTools: {}}, Needs: []string{}}
	splice := true
	for _, l := range ls {
		refuted := l.Verdict == certify.Refuted
		switch l.Level {
		case "L0", "L1", "L5":
			a.FullHistory = a.FullHistory && !refuted
		case "L4":
			splice = l.Verdict == certify.Proved
		}
	}
	for where, suffix := range map[string]string{WithTools: "", WithoutTools: "/no_tools"} {
		for _, kind := range certify.Kinds() {
			x, j := find(ls, "append."+kind+suffix), find(ls, "junction."+kind)
			if a.FullHistory && splice && x != nil && j != nil && x.Verdict == certify.Proved && j.Verdict == certify.Proved {
				a.Incremental[where] = append(a.Incremental[where], kind)
			}
		}
	}
	if x := find(ls, "clock_free"); x != nil && x.Verdict == certify.Refuted {
		a.Needs = append(a.Needs, "frozen_clock")
	}
	return a
}

// compact is v without white space between its parts, its numbers as they are spelled.
func compact(v ojson.Value) (json.RawMessage, error) {
	b, err := json.Marshal(json.RawMessage(v.Append(nil)))
	return b, fault.Wrap(fault.BadFlag, err, "template settings")
}

func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 {
		a = json.RawMessage("{}")
	}
	x, err := ojson.Parse(a)
	y, err2 := ojson.Parse(b)
	return err == nil && err2 == nil && ojson.Equal(x, y)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// name is a model's, for messages.
func (o Options) name() string {
	if o.Dir == model.BuiltinName {
		return "the built-in model"
	}
	return strings.TrimSuffix(o.Dir, "/")
}
