package cli

import (
	"slices"
	"time"

	"github.com/tito-rl/tito/internal/dialect/chatcompletions"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
)

// conversation reads a prompt's request: a Chat Completions request as harnesses send it, or one with template_kwargs and
// add_generation_prompt as template engines are called. Arguments of calls may be objects.
func conversation(v ojson.Value, clock template.Clock) (family.Conversation, error) {
	const kwargs, open = "chat_template_kwargs", "add_generation_prompt"
	opens := true
	var out []ojson.Member
	for _, m := range v.Members() {
		switch m.Key {
		case "template_kwargs":
			if _, both := v.Get(kwargs); both {
				return family.Conversation{}, fault.New(fault.BadRequest, "template_kwargs and %s are the same: give one", kwargs)
			}
			m.Key = kwargs
		case open:
			if k := m.Value.Kind(); k != ojson.Bool && k != ojson.Null {
				return family.Conversation{}, fault.New(fault.BadRequest, "%s must be a boolean, not %s", open, k)
			}
			opens = m.Value.Kind() == ojson.Null || m.Value.Bool()
			continue
		case "messages":
			m.Value = eachElem(m.Value, withTextArguments)
		}
		out = append(out, m)
	}
	body := v.Raw()
	if v.Kind() == ojson.Object {
		body = ojson.ObjectOf(out...).Raw()
	}
	r, err := chatcompletions.Dialect{}.ParseRequest(body)
	if err != nil {
		return family.Conversation{}, err
	}
	c := family.Conversation{Messages: r.Messages, Tools: r.Tools, Kwargs: r.TemplateKwargs, Clock: clock}
	if !opens {
		c.Kwargs = ojson.ObjectOf(append(slices.Clone(c.Kwargs.Members()), ojson.Member{Key: open, Value: ojson.BoolOf(false)})...)
	}
	return c, nil
}

// withTextArguments spells out the arguments of a message's calls that are objects, as the wire API has them.
func withTextArguments(message ojson.Value) ojson.Value {
	return member(message, "tool_calls", func(calls ojson.Value) ojson.Value {
		return eachElem(calls, func(call ojson.Value) ojson.Value {
			return member(call, "function", func(f ojson.Value) ojson.Value {
				return member(f, "arguments", func(args ojson.Value) ojson.Value {
					if args.Kind() != ojson.Object {
						return args
					}
					return ojson.StringOf(string(args.Raw()))
				})
			})
		})
	})
}

func eachElem(v ojson.Value, do func(ojson.Value) ojson.Value) ojson.Value {
	if v.Kind() != ojson.Array {
		return v
	}
	out := slices.Clone(v.Elems())
	for i := range out {
		out[i] = do(out[i])
	}
	return ojson.ArrayOf(out...)
}

// member is v with do's result for each of its members called key.
func member(v ojson.Value, key string, do func(ojson.Value) ojson.Value) ojson.Value {
	if _, ok := v.Get(key); !ok {
		return v
	}
	out := slices.Clone(v.Members())
	for i := range out {
		if out[i].Key == key {
			out[i].Value = do(out[i].Value)
		}
	}
	return ojson.ObjectOf(out...)
}

// clockOf reads --clock: what templates see is the time as it is written, whatever its zone. "" is the time now, in UTC,
// as a trajectory that began now would have it.
func clockOf(s string) (template.Clock, error) {
	at := time.Now().UTC()
	if s != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, s); err != nil {
			return template.Clock{}, fault.New(fault.BadFlag, "--clock %q is no time", s).WithFix("write it as 2026-11-30T12:00:00Z")
		}
	}
	return template.Clock{Year: at.Year(), Month: int(at.Month()), Day: at.Day(), Hour: at.Hour(), Minute: at.Minute(),
		Second: at.Second(), Weekday: int(at.Weekday()), YearDay: at.YearDay()}, nil
}
