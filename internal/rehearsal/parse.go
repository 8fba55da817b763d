package rehearsal

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
)

// ParseBook reads a book's JSON:
//
//	{"format": "tito-rehearsal/1",
//	 "scenes": [{"name", "match": [text], "steps": [{"when": {"turn", "contains"}, "replies": [reply]}]}],
//	 "default": [reply],
//	 "faults": [{"kind", "call", "scene", "turn", "times", "after", "delay_ms", "status", "retry_after_s", "version", "set"}]}
//
// where a reply is {"name", "reasoning", "content", "calls": [{"name", "arguments"}], "raw", "cut", "split", "weight"} and
// arguments are text as sampled. What may be left out is said at [Book], [Reply] and [Fault]. An unknown, missing or repeated key, a wrong type or an impossible value is a
// [fault.BadConfig] that names its place.
func ParseBook(b []byte) (*Book, error) {
	v, err := ojson.Parse(b)
	if err != nil {
		return nil, &fault.Error{Code: fault.BadConfig, Msg: "rehearsal book", Err: err}
	}
	var r reader
	o := r.object("book", v, "format", "scenes", "default", "faults")
	if f := r.str("book.format", o["format"]); r.err == nil && f != BookFormat {
		r.fail("book.format", "is %q; this version reads %q", f, BookFormat)
	}
	var book Book
	names := map[string]bool{DefaultScene: true}
	for i, s := range r.list("book.scenes", o["scenes"]) {
		at := fmt.Sprintf("book.scenes[%d]", i)
		scene := r.scene(at, s)
		if names[scene.Name] {
			r.fail(at+".name", "%q is taken", scene.Name)
		}
		names[scene.Name] = true
		book.Scenes = append(book.Scenes, scene)
	}
	book.Default = r.replies("book.default", o["default"])
	book.Faults = r.faults("book.faults", o["faults"])
	if r.err != nil {
		return nil, r.err
	}
	return &book, nil
}

// ParseFaults reads a JSON array of faults, as it stands under a book's "faults" key, with the same errors.
func ParseFaults(b []byte) ([]Fault, error) {
	v, err := ojson.Parse(b)
	if err != nil {
		return nil, &fault.Error{Code: fault.BadConfig, Msg: "rehearsal faults", Err: err}
	}
	var r reader
	fs := r.faults("faults", v)
	if r.err != nil {
		return nil, r.err
	}
	return fs, nil
}

func (r *reader) scene(at string, v ojson.Value) Scene {
	o := r.object(at, v, "name", "match", "steps")
	s := Scene{Name: r.str(at+".name", o["name"])}
	if s.Name == "" || strings.ContainsAny(s.Name, "/\n") {
		r.fail(at+".name", "must be a word without '/'")
	}
	for i, m := range r.list(at+".match", o["match"]) {
		place := fmt.Sprintf("%s.match[%d]", at, i)
		text := r.str(place, m)
		if text == "" {
			r.fail(place, "is empty")
		}
		s.Match = append(s.Match, text)
	}
	if len(s.Match) == 0 {
		r.fail(at+".match", "is empty; use \"default\" for replies to every prompt")
	}
	for i, st := range r.list(at+".steps", o["steps"]) {
		s.Steps = append(s.Steps, r.step(fmt.Sprintf("%s.steps[%d]", at, i), st))
	}
	if len(s.Steps) == 0 {
		r.fail(at+".steps", "is empty")
	}
	return s
}

func (r *reader) step(at string, v ojson.Value) Step {
	o := r.object(at, v, "when", "replies")
	s := Step{When: When{Turn: -1}}
	if w, ok := o["when"]; ok {
		when := r.object(at+".when", w, "turn", "contains")
		if t, ok := when["turn"]; ok {
			s.When.Turn = r.count(at+".when.turn", t)
		}
		s.When.Contains = r.str(at+".when.contains", when["contains"])
	}
	s.Replies = r.replies(at+".replies", o["replies"])
	if len(s.Replies) == 0 {
		r.fail(at+".replies", "is empty")
	}
	return s
}

func (r *reader) replies(at string, v ojson.Value) []Reply {
	var out []Reply
	names := map[string]bool{}
	for i, e := range r.list(at, v) {
		place := fmt.Sprintf("%s[%d]", at, i)
		reply := r.reply(place, e)
		if reply.Name != "" && names[reply.Name] {
			r.fail(place+".name", "%q is taken", reply.Name)
		}
		names[reply.Name] = true
		out = append(out, reply)
	}
	return out
}

func (r *reader) reply(at string, v ojson.Value) Reply {
	o := r.object(at, v, "name", "reasoning", "content", "calls", "raw", "cut", "split", "weight")
	p := Reply{
		Name:      r.str(at+".name", o["name"]),
		Reasoning: r.text(at+".reasoning", o["reasoning"]),
		Content:   r.text(at+".content", o["content"]),
		Raw:       r.text(at+".raw", o["raw"]),
		Split:     r.str(at+".split", o["split"]),
	}
	if strings.ContainsAny(p.Name, "/\n") {
		r.fail(at+".name", "must be a word without '/'")
	}
	for i, c := range r.list(at+".calls", o["calls"]) {
		place := fmt.Sprintf("%s.calls[%d]", at, i)
		m := r.object(place, c, "name", "arguments")
		if !m["arguments"].IsValid() {
			r.fail(place+".arguments", "is missing; it is the raw text as sampled")
		}
		p.Calls = append(p.Calls, chat.Call{Name: r.str(place+".name", m["name"]), Arguments: r.str(place+".arguments", m["arguments"])})
	}
	parts := p.Reasoning.Presence == chat.Present || p.Content.Presence == chat.Present || len(p.Calls) > 0
	if !parts && p.Raw.Presence != chat.Present {
		r.fail(at, "is empty; give content, reasoning, calls or raw")
	}
	if c, ok := o["cut"]; ok {
		if p.Cut = r.count(at+".cut", c); p.Cut == 0 {
			r.fail(at+".cut", "must be at least 1")
		}
	}
	if w, ok := o["weight"]; ok {
		p.Weight = r.number(at+".weight", w)
	}
	return p
}

// reader walks parsed JSON strictly. The first failure stays in err; what is read after it means nothing.
type reader struct{ err error }

func (r *reader) fail(at, format string, args ...any) {
	if r.err == nil {
		r.err = fault.New(fault.BadConfig, "%s "+format, append([]any{at}, args...)...)
	}
}

func (r *reader) object(at string, v ojson.Value, keys ...string) map[string]ojson.Value {
	if v.Kind() != ojson.Object {
		r.fail(at, "must be an object, is %s", v.Kind())
		return nil
	}
	out := make(map[string]ojson.Value, v.Len())
	for _, m := range v.Members() {
		known := false
		for _, k := range keys {
			known = known || k == m.Key
		}
		if !known {
			r.fail(at, "has an unknown key %q; known are %s", m.Key, strings.Join(keys, ", "))
		}
		if _, twice := out[m.Key]; twice {
			r.fail(at, "has the key %q twice", m.Key)
		}
		out[m.Key] = m.Value
	}
	return out
}

// list reads an array; an absent one is empty.
func (r *reader) list(at string, v ojson.Value) []ojson.Value {
	if v.IsValid() && v.Kind() != ojson.Array {
		r.fail(at, "must be an array, is %s", v.Kind())
	}
	return v.Elems()
}

// str reads a string; an absent one is "".
func (r *reader) str(at string, v ojson.Value) string { return r.text(at, v).S }

func (r *reader) text(at string, v ojson.Value) chat.Text {
	if !v.IsValid() {
		return chat.Text{}
	}
	if v.Kind() != ojson.String {
		r.fail(at, "must be a string, is %s", v.Kind())
		return chat.Text{}
	}
	return chat.T(v.Str())
}

func (r *reader) number(at string, v ojson.Value) float64 {
	f, err := strconv.ParseFloat(v.Num(), 64)
	if v.Kind() != ojson.Number || err != nil || math.IsInf(f, 0) {
		r.fail(at, "must be a finite number")
	}
	return f
}

func (r *reader) count(at string, v ojson.Value) int {
	n, err := strconv.Atoi(v.Num())
	if v.Kind() != ojson.Number || err != nil || n < 0 || n > math.MaxInt32 {
		r.fail(at, "must be a whole number of at least 0")
	}
	return n
}
