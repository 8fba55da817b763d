package certify

import (
	"strconv"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
)

// history is a conversation that ends with a reply, in its context.
type history struct {
	messages []chat.Message
	tools    []ojson.Value
	settings string // of the context, where it is not the usual one
	wide     bool   // one of the wide set: a single reply of every form
}

func (h history) reply() chat.Message { return h.messages[len(h.messages)-1] }

// before is the conversation that the reply answered.
func (h history) before() []chat.Message { return h.messages[:len(h.messages)-1] }

// shape is the form of a reply.
type shape struct {
	reasoning, content chat.Text
	calls              []string // arguments of each
}

const (
	simpleArgs = `{"city": "Oslo"}`
	// richArgs has every kind of value, keys out of order, numbers in their own spelling, and characters beyond ASCII.
	richArgs = `{"z": 1, "a": 1.5, "m": -7, "t": true, "f": false, "n": null, "s": "é\n\"😀\"", "l": [1, {"b": "2", "a": []}], "d": {"y": {}, "x": 3}}`
)

var (
	absent = chat.Text{}
	null   = chat.Text{Presence: chat.Null}
)

// basic are the 18 shapes that are combined over several turns.
func basic() (out []shape) {
	for _, r := range []chat.Text{absent, chat.T(""), chat.T("R x")} {
		for _, c := range []chat.Text{chat.T(""), chat.T("txt")} {
			for _, calls := range [][]string{nil, {simpleArgs}, {simpleArgs, simpleArgs}} {
				out = append(out, shape{r, c, calls})
			}
		}
	}
	return out
}

// few are the shapes of longer conversations.
func few() []shape {
	return []shape{
		{absent, chat.T("txt"), nil},
		{chat.T("R x"), chat.T("txt"), nil},
		{absent, chat.T(""), []string{simpleArgs}},
		{chat.T("R x"), chat.T(""), []string{simpleArgs}},
		{chat.T("R x"), chat.T("txt"), []string{simpleArgs, simpleArgs}},
	}
}

// wide are the forms of a single reply: every edge of every part.
func wide(stop string) (out []shape) {
	reasonings := []chat.Text{absent, chat.T(""), chat.T("R x"), chat.T("\nR x \n"), chat.T(" \n "), chat.T("Grüße 日本 😀")}
	contents := []chat.Text{null, chat.T(""), chat.T("txt"), chat.T("\n txt \n"), chat.T(" \n "), chat.T("é 日本 😀"),
		chat.T("a</think>b"), chat.T("<think>z</think>b"), chat.T("x" + stop + "y")}
	for _, r := range reasonings {
		for _, c := range contents {
			for _, calls := range [][]string{nil, {simpleArgs}, {richArgs}, {simpleArgs, richArgs}, {`{}`}} {
				out = append(out, shape{r, c, calls})
			}
		}
	}
	return out
}

// context is what a conversation begins with.
type context struct {
	name    string
	system  bool
	tools   bool
	user    string
	results bool // of calls: plain ones, else those with edges
}

func contexts() []context {
	return []context{
		{"", true, true, "Q", true},
		{"no system", false, true, "Q", false},
		{"no system, no tools", false, false, "Q\n", true},
		{"no tools", true, false, "\n Q ", false},
		{"the user's text looks like a tool's result", true, true, "<tool_response>Q</tool_response>", true},
	}
}

// tools are those that the probes declare.
func tools() []ojson.Value {
	return []ojson.Value{
		tool(`{"type":"function","function":{"name":"get_weather","description":"Weather <now> & \"later\"","parameters":{"type":"object","properties":{"city":{"type":"string"},"z":{"type":"integer"},"a":{"type":"number"}},"required":["city"]}}}`),
		tool(`{"type":"function","function":{"name":"bash","description":"Run é","parameters":{"type":"object","properties":{"command":{"type":"string"}}}}}`),
	}
}

func tool(s string) ojson.Value {
	v, err := ojson.Parse([]byte(s))
	if err != nil {
		return ojson.Value{}
	}
	return v
}

// corpus lists the histories, shortest first.
func corpus(f family.Family) []history {
	var out []history
	stop := f.Stops()[0].Text
	for i, c := range contexts() {
		for j, s := range wide(stop) {
			if i > 0 && (i+j)%3 != 0 { // the usual context has every form
				continue
			}
			h := start(c)
			h.wide = true
			h.messages = append(h.messages, reply(s, 0))
			out = append(out, h)
		}
	}
	usual := contexts()[0]
	for _, s := range basic() {
		first := start(usual)
		first.messages = append(first.messages, reply(s, 0))
		for _, mid := range gaps(first) {
			for _, s := range basic() {
				out = append(out, turn(mid, s, 1))
			}
		}
	}
	for _, s := range few() {
		first := start(usual)
		first.messages = append(first.messages, reply(s, 0))
		for _, mid := range gaps(first) {
			for _, s := range few() {
				for _, end := range gaps(turn(mid, s, 1)) {
					for _, s := range few() {
						out = append(out, turn(end, s, 2))
					}
				}
			}
		}
	}
	return out
}

func start(c context) history {
	h := history{settings: c.name}
	if c.system {
		h.messages = append(h.messages, chat.Message{Role: chat.System, Content: chat.T("S")})
	}
	if c.tools {
		h.tools = tools()
	}
	h.messages = append(h.messages, chat.Message{Role: chat.User, Content: chat.T(c.user)})
	return h
}

// reply is the n-th reply, of shape s.
func reply(s shape, n int) chat.Message {
	m := chat.Message{Role: chat.Assistant, Content: s.content, Reasoning: s.reasoning}
	for i, args := range s.calls {
		m.Calls = append(m.Calls, chat.Call{ID: "call" + pad(n*10+i), Name: "get_weather", Arguments: args})
	}
	return m
}

// pad makes an id of nine letters and digits, as one maker's templates want it.
func pad(n int) string {
	s := strconv.Itoa(n)
	return "00000"[:5-len(s)] + s
}

// with is h and more messages.
func (h history) with(ms ...chat.Message) history {
	h.wide = false
	h.messages = append(h.messages[:len(h.messages):len(h.messages)], ms...)
	return h
}

func turn(h history, s shape, n int) history { return h.with(reply(s, n)) }

// results answer the calls of h's last reply.
func results(h history) (out []chat.Message) {
	texts := []string{"r", "\n r \n", ""}
	for i, c := range h.reply().Calls {
		out = append(out, chat.Message{Role: chat.Tool, CallID: c.ID, Name: c.Name, Content: chat.T(texts[(i+len(h.messages))%len(texts)])})
	}
	return out
}

var more = chat.Message{Role: chat.User, Content: chat.T("more")}

// gaps are the ways in which a conversation goes on to its next reply.
func gaps(h history) []history {
	if len(h.reply().Calls) == 0 {
		return []history{h.with(more)}
	}
	return []history{h.with(results(h)...), h.with(append(results(h), more)...)}
}

// added is one append to a history.
type added struct {
	kind     string
	messages []chat.Message
}

// appends are the ways in which a harness may go on from h.
func appends(h history) []added {
	note := chat.Message{Role: chat.System, Content: chat.T("note")}
	if len(h.reply().Calls) == 0 {
		return []added{
			{AppendUser, []chat.Message{more}},
			{AppendSystem, []chat.Message{note}},
			{AppendSystem, []chat.Message{note, more}},
			{appendAssistant, []chat.Message{{Role: chat.Assistant, Content: chat.T("again")}, more}},
		}
	}
	rs := results(h)
	out := []added{{AppendTool, rs}, {AppendToolUser, append(rs[:len(rs):len(rs)], more)}, {AppendSystem, append(rs[:len(rs):len(rs)], note)}}
	return out
}

// Case is one conversation to compare with a reference's render.
type Case struct {
	Messages []chat.Message
	Tools    []ojson.Value
}

// Cases are the conversations on which a render is compared with the reference's: every context, every form of reply,
// with and without what follows it. The same format gives the same cases.
func Cases(f family.Family) (out []Case) {
	for i, h := range corpus(f) {
		if h.wide && h.settings == "" && i%2 == 0 || i%9 == 0 {
			as := appends(h)
			a := as[i%len(as)]
			out = append(out, Case{append(h.messages[:len(h.messages):len(h.messages)], a.messages...), h.tools})
		}
	}
	return out
}
