package rehearsal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/ojson"
)

// FaultKind is one way in which an engine can go wrong.
type FaultKind string

// The kinds. After is a number of ids.
const (
	FaultDrop     FaultKind = "drop"             // the connection is cut after After ids
	FaultIDs      FaultKind = "missing_ids"      // from After on, chunks carry no ids
	FaultFew      FaultKind = "few_logprobs"     // the chunk that holds id After has one log probability too few
	FaultNone     FaultKind = "no_logprobs"      // no log probabilities at all
	FaultShifted  FaultKind = "shifted_logprobs" // each id has its forerunner's log probability; the first has 0
	FaultNaN      FaultKind = "nan_logprob"      // id After's log probability is not a number
	FaultNoFinish FaultKind = "no_finish"        // the answer ends without a finish reason
	FaultPrompt   FaultKind = "wrong_prompt"     // the prompt ids reported differ in the last one
	FaultSlow     FaultKind = "slow"             // id After (0: the first byte of the answer) comes Delay milliseconds late
	FaultStatus   FaultKind = "status"           // the request is answered with Status, and RetryAfter seconds where > 0
	FaultSwap     FaultKind = "swap"             // before id After, new weights are published: Version, with Set applied
)

var faultKinds = []FaultKind{FaultDrop, FaultIDs, FaultFew, FaultNone, FaultShifted, FaultNaN, FaultNoFinish, FaultPrompt,
	FaultSlow, FaultStatus, FaultSwap}

// Fault is one thing that an engine does wrong on purpose, and when.
type Fault struct {
	Kind  FaultKind
	Call  int    // number of the call, from 1 in order of arrival; 0 = any
	Scene string // scene that the call plays; "" = any
	Turn  int    // turn that the call plays; -1 = any
	Times int    // how often it happens; 0 = whenever it fits. The engine counts

	After      int
	Delay      int // milliseconds
	Status     int
	RetryAfter int // seconds
	Version    string
	Set        map[string]float64 // parameters by name
}

// Fits is whether f happens to a call: its number and its state.
func (f *Fault) Fits(call int, s State) bool {
	return (f.Call == 0 || f.Call == call) && (f.Scene == "" || f.Scene == s.Scene) && (f.Turn < 0 || f.Turn == s.Turn)
}

func (r *reader) faults(at string, v ojson.Value) []Fault {
	var out []Fault
	for i, e := range r.list(at, v) {
		out = append(out, r.fault(fmt.Sprintf("%s[%d]", at, i), e))
	}
	return out
}

func (r *reader) fault(at string, v ojson.Value) Fault {
	o := r.object(at, v, "kind", "call", "scene", "turn", "times", "after", "delay_ms", "status", "retry_after_s", "version", "set")
	f := Fault{
		Kind:    FaultKind(r.str(at+".kind", o["kind"])),
		Scene:   r.str(at+".scene", o["scene"]),
		Version: r.str(at+".version", o["version"]),
		Turn:    -1,
	}
	if !slices.Contains(faultKinds, f.Kind) {
		r.fail(at+".kind", "must be one of %s", joinKinds())
	}
	for key, to := range map[string]*int{"call": &f.Call, "turn": &f.Turn, "times": &f.Times, "after": &f.After,
		"delay_ms": &f.Delay, "status": &f.Status, "retry_after_s": &f.RetryAfter} {
		if n, ok := o[key]; ok {
			*to = r.count(at+"."+key, n)
		}
	}
	if set, ok := o["set"]; ok {
		f.Set = map[string]float64{}
		if set.Kind() != ojson.Object {
			r.fail(at+".set", "must be an object")
		}
		for _, m := range set.Members() {
			f.Set[m.Key] = r.number(at+".set."+m.Key, m.Value)
		}
	}
	switch {
	case f.Kind == FaultStatus && (f.Status < 400 || f.Status > 599):
		r.fail(at+".status", "must be an error status, 400 to 599")
	case f.Kind == FaultSlow && f.Delay == 0:
		r.fail(at+".delay_ms", "must be more than 0")
	case f.Kind == FaultSwap && f.Version == "":
		r.fail(at+".version", "must name the new weights")
	}
	return f
}

func joinKinds() string {
	s := make([]string, len(faultKinds))
	for i, k := range faultKinds {
		s[i] = string(k)
	}
	return strings.Join(s, ", ")
}
