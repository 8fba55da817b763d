// Package verify re-proves what an artifact claims, and what was made of it.
//
// It is a second reader of the truth: it shares no code with whatever served or materialized the trajectory, beyond the
// fact types and the artifact's codec. Prompts, continuity, fates, segments and the ledger are derived again from the facts
// by its own rules, so that a bug has to be made twice to stay hidden. It must not import session, materialize or
// trajectory's tree.
//
// What it proves is integrity and consistency. That the file is the one that was written is certain only where the chain's
// head was held out of the agent's reach; see [Options.Head].
package verify

import (
	"encoding/hex"
	"fmt"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Options says what to prove beyond the artifact itself.
type Options struct {
	// Policy under which the run is derived; nil = the header's.
	Policy *trajectory.Policy
	// Runs is what materialize wrote, in JSON Lines: every run of this trajectory is compared token for token with the one
	// derived here; at least one must be there. nil = none to compare.
	Runs []byte
	// Open accepts a trajectory that has not ended.
	Open bool
	// Head is the head of the hash chain as kept elsewhere, in hexadecimal. "" = none was kept.
	Head string
}

// Claim is one thing that was proved, and how often.
type Claim struct {
	Name    string `json:"claim"`
	Checked int    `json:"checked"`
}

// Failure is the first claim that does not hold.
type Failure struct {
	Code  fault.Code     `json:"code"`
	Claim string         `json:"claim"`
	Turn  trajectory.Seq `json:"turn"`  // 0 where it is not of one turn
	Index int            `json:"index"` // of the id, message, call, span, segment or record; -1 where there is none
	What  string         `json:"what"`
}

// Report is what was proved.
type Report struct {
	Trajectory string   `json:"trajectory"`
	Custody    string   `json:"custody"`
	Head       string   `json:"head"` // of the chain, in hexadecimal
	Ended      bool     `json:"ended"`
	Records    int      `json:"records"`
	Turns      int      `json:"turns"`
	Claims     []Claim  `json:"claims"`   // begun, in order
	Segments   int      `json:"segments"` // with a trained id
	Ledger     Ledger   `json:"ledger"`
	Runs       int      `json:"runs"` // compared
	Failed     *Failure `json:"failed,omitempty"`
}

// Ledger says what became of every sampled id.
type Ledger struct {
	Sampled   int            `json:"sampled"`
	Trained   int            `json:"trained"`
	Masked    map[string]int `json:"masked"`
	Discarded map[string]int `json:"discarded"`
	Auxiliary int            `json:"auxiliary"`
}

// The claims, in the order in which they are proved.
const (
	ClaimFrames     = "frames"     // every record whole, its checksum right, linked to the one before
	ClaimHead       = "head"       // the chain's head is the one that was kept
	ClaimEnd        = "end"        // the trajectory ended, and its end counts what is there
	ClaimHeader     = "header"     // custody, modes and policy are known words
	ClaimParents    = "parents"    // a turn's parent, base and nearest turn are earlier turns that fit together
	ClaimKeep       = "keep"       // kept ids are the longest prefix that prompt and base share
	ClaimVocabulary = "vocabulary" // every id is below the vocabulary's size
	ClaimWords      = "words"      // class, finish and prompt are known words
	ClaimStop       = "stop"       // the stop id is the last id sampled and one of the header's
	ClaimLogprobs   = "logprobs"   // the column's state is one of the four; counted as checked where it is ok
	ClaimVersions   = "versions"   // version spans cover the completion
	ClaimCalls      = "calls"      // call ids are unique and their spans lie in the completion
	ClaimMessages   = "messages"   // every message, tools array and settings is in the file, with its hash
	ClaimEchoes     = "echoes"     // an echo names a message of the request and an earlier turn; the parent's is there
	ClaimDelivery   = "delivery"   // deliveries name a turn and a known state
	ClaimSegments   = "segments"   // a segment's ids are what its turns' engines consumed and sampled
	ClaimOnce       = "once"       // an id trains at most once
	ClaimLedger     = "ledger"     // sampled = trained + masked + discarded + auxiliary
	ClaimRuns       = "runs"       // the given run is the derived one
)

// Verify proves the artifact b. The Report says how far it came; the error carries the code of what failed: an artifact
// code where the file is damaged, [fault.VerifyFailed] where a claim does not hold, [fault.BadConfig] for a policy that is
// not known.
func Verify(b []byte, o Options) (*Report, error) {
	v := &verifier{o: o, rep: &Report{Ledger: Ledger{Masked: map[string]int{}, Discarded: map[string]int{}}}}
	err := v.run(b)
	if err == nil {
		return v.rep, nil
	}
	f := v.failed
	if f == nil {
		f = &Failure{Code: fault.CodeOf(err), Claim: v.claim(), Index: -1, What: err.Error()}
	}
	v.rep.Failed = f
	return v.rep, err
}

type verifier struct {
	o      Options
	file   *artifact.File
	rep    *Report
	failed *Failure

	current int // claim

	turns []*turn // by Seq-1
	blobs map[trajectory.Hash]bool
	steps map[step]int // of message lists
	list  []listNode
	calls map[string]bool
	pol   trajectory.Policy

	samples []*sample
}

func (v *verifier) run(b []byte) error {
	v.begin(ClaimFrames)
	f, err := artifact.Decode(b)
	if f != nil {
		v.file = f
		r := v.rep
		r.Trajectory, r.Custody, r.Ended = f.Header.Trajectory, f.Header.Custody, f.Ended()
		r.Head, r.Records, r.Turns = hex.EncodeToString(f.Head[:]), len(f.Records), f.Turns
		v.count(len(f.Records))
	}
	if err != nil {
		return err
	}
	for _, prove := range []func() error{v.head, v.end, v.header, v.facts, v.derive, v.runs} {
		if err := prove(); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) head() error {
	if v.o.Head == "" {
		return nil
	}
	v.begin(ClaimHead)
	if v.o.Head != v.rep.Head {
		return v.fail(0, -1, "the chain's head is %s, not %s", v.rep.Head, v.o.Head)
	}
	v.count(1)
	return nil
}

func (v *verifier) end() error {
	v.begin(ClaimEnd)
	if v.file.End != nil {
		v.count(1) // what it counts was compared as it was read
		return nil
	}
	if v.o.Open {
		return nil
	}
	v.failed = &Failure{Code: fault.ArtifactTruncated, Claim: ClaimEnd, Index: -1, What: "there is no end record"}
	return fault.New(fault.ArtifactTruncated, "trajectory %s has no end record: it is still open, or its file was cut", v.rep.Trajectory).
		WithFix("finish it, or accept it open")
}

func (v *verifier) header() error {
	v.begin(ClaimHeader)
	h := &v.file.Header
	for _, w := range []struct {
		what, has string
		known     []string
	}{
		{"custody", h.Custody, []string{"host", "sandbox"}},
		{"prompt mode", h.Prompt, []string{"full_history", "incremental"}},
		{"render", h.RenderBy, []string{"tito", "engine"}},
	} {
		if !oneOf(w.has, w.known...) {
			return v.fail(0, -1, "%s is %q", w.what, w.has)
		}
	}
	v.pol = h.Policy
	if v.o.Policy != nil {
		v.pol = *v.o.Policy
	}
	p := v.pol
	if !oneOf(p.Realign, "prefix", "off") || !oneOf(p.Refused, "train", "discard") || !oneOf(p.Subagents, "train", "context") ||
		p.RealignMax < 0 || p.MaxContext < 0 {
		return fault.New(fault.BadConfig, "the policy %+v is not known", p).WithFix("name a policy: realign prefix or off")
	}
	v.count(1)
	return nil
}

// begin starts a claim, or goes on with it.
func (v *verifier) begin(claim string) {
	for i, c := range v.rep.Claims {
		if c.Name == claim {
			v.current = i
			return
		}
	}
	v.current = len(v.rep.Claims)
	v.rep.Claims = append(v.rep.Claims, Claim{Name: claim})
}

func (v *verifier) count(n int) { v.rep.Claims[v.current].Checked += n }

func (v *verifier) claim() string { return v.rep.Claims[v.current].Name }

// fail says that the current claim does not hold.
func (v *verifier) fail(turn trajectory.Seq, index int, format string, args ...any) error {
	f := &Failure{fault.VerifyFailed, v.claim(), turn, index, fmt.Sprintf(format, args...)}
	v.failed = f
	where := ""
	if turn > 0 {
		where = fmt.Sprintf(", turn %d", turn)
	}
	return fault.New(fault.VerifyFailed, "claim %s does not hold in trajectory %s%s: %s", f.Claim, v.rep.Trajectory, where, f.What)
}

func oneOf(s string, known ...string) bool {
	for _, k := range known {
		if s == k {
			return true
		}
	}
	return false
}
