package chatcompletions

import (
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
)

// effect says what becomes of a field of the request. null always means absent.
type effect uint8

const (
	honoured effect = iota // does exactly what the API says
	asked                  // recorded in Request.Asked and overridden: the run, not the harness, says how tokens are drawn
	ignored                // recorded in Request.Ignored: no effect on the ids or the reply
	refused                // 400, unless the value asks for nothing
)

// field is a row of the table. A field that is not in it is recorded in Request.Ignored.
type field struct {
	effect effect
	kind   ojson.Kind // the only legal type; Invalid = any
	whole  bool       // the number must be an integer
	// read takes a honoured field over; harmless says which values of a refused one ask for nothing.
	read     func(*reader, ojson.Value) error
	harmless func(ojson.Value) bool
	why      string // why it is refused, and what to do instead
}

const (
	whyGrammar = "constrained output would need log probabilities under the constraint; describe the format in the prompt"
	whyCalls   = "the policy chooses whether to call; leave tools out to have no call"
	whyPrompt  = "the prompt is what the model's own template makes of messages and tools"
	whyAudio   = "only text can be turned into ids and back"
	whyStop    = "cutting at text would hide sampled ids from the harness or train on a cut that the policy did not make; " +
		"the completion ends at the model's own stop token"
)

// fields is everything known about a request, in the order of the API's reference; below it, what engines add.
var fields = map[string]field{
	"messages":              {effect: honoured, kind: ojson.Array, read: (*reader).messages},
	"model":                 {effect: honoured, kind: ojson.String, read: func(r *reader, v ojson.Value) error { r.req.Model = v.Str(); return nil }},
	"tools":                 {effect: honoured, kind: ojson.Array, read: (*reader).tools},
	"tool_choice":           {effect: honoured, read: (*reader).toolChoice},
	"max_completion_tokens": {effect: honoured, kind: ojson.Number, read: func(r *reader, v ojson.Value) error { return r.positive("max_completion_tokens", v, &r.maxNew) }},
	"max_tokens":            {effect: honoured, kind: ojson.Number, read: func(r *reader, v ojson.Value) error { return r.positive("max_tokens", v, &r.maxOld) }},
	"n":                     {effect: honoured, kind: ojson.Number, read: (*reader).n},
	"stream":                {effect: honoured, kind: ojson.Bool, read: func(r *reader, v ojson.Value) error { r.req.Stream = v.Bool(); return nil }},
	"stream_options":        {effect: honoured, kind: ojson.Object, read: (*reader).streamOptions},
	"logprobs":              {effect: honoured, kind: ojson.Bool, read: func(r *reader, v ojson.Value) error { r.req.WantLogprobs = v.Bool(); return nil }},
	"reasoning_effort":      {effect: honoured, kind: ojson.String, read: func(r *reader, v ojson.Value) error { r.effort = v; return nil }},

	"temperature":         {effect: asked, kind: ojson.Number},
	"top_p":               {effect: asked, kind: ojson.Number},
	"seed":                {effect: asked, kind: ojson.Number, whole: true},
	"frequency_penalty":   {effect: asked, kind: ojson.Number},
	"presence_penalty":    {effect: asked, kind: ojson.Number},
	"verbosity":           {effect: asked, kind: ojson.String},
	"parallel_tool_calls": {effect: asked, kind: ojson.Bool}, // false cannot be enforced on what a policy samples

	"user":                   {effect: ignored},
	"store":                  {effect: ignored},
	"metadata":               {effect: ignored},
	"service_tier":           {effect: ignored},
	"prompt_cache_key":       {effect: ignored},
	"prompt_cache_retention": {effect: ignored},
	"safety_identifier":      {effect: ignored},

	"top_logprobs":       {effect: refused, kind: ojson.Number, whole: true, harmless: isNumber("0"), why: "only the sampled token's log probability is given; use logprobs alone"},
	"stop":               {effect: refused, harmless: isEmpty, why: whyStop},
	"logit_bias":         {effect: refused, kind: ojson.Object, harmless: isEmpty, why: "tokens are drawn from the policy as it is"},
	"response_format":    {effect: refused, kind: ojson.Object, harmless: isTextFormat, why: whyGrammar},
	"modalities":         {effect: refused, kind: ojson.Array, harmless: isTextOnly, why: whyAudio},
	"audio":              {effect: refused, why: whyAudio},
	"prediction":         {effect: refused, why: "nothing is predicted; leave it out"},
	"web_search_options": {effect: refused, why: "there is no search; declare a tool"},
	"functions":          {effect: refused, harmless: isEmpty, why: "use tools"},
	"function_call":      {effect: refused, harmless: isString("auto", "none"), why: "use tools and tool_choice"},

	"chat_template_kwargs": {effect: honoured, kind: ojson.Object, read: (*reader).kwargs},

	"top_k":              {effect: asked, kind: ojson.Number},
	"min_p":              {effect: asked, kind: ojson.Number},
	"repetition_penalty": {effect: asked, kind: ojson.Number},
	"min_tokens":         {effect: asked, kind: ojson.Number},

	"stop_token_ids":         {effect: refused, harmless: isEmpty, why: whyStop},
	"ignore_eos":             {effect: refused, harmless: isFalse, why: whyStop},
	"best_of":                {effect: refused, harmless: isNumber("1"), why: "one completion is sampled, and it is the one returned"},
	"use_beam_search":        {effect: refused, harmless: isFalse, why: "one completion is sampled, and it is the one returned"},
	"echo":                   {effect: refused, harmless: isFalse, why: whyPrompt},
	"prompt":                 {effect: refused, why: whyPrompt},
	"prompt_logprobs":        {effect: refused, why: "the prompt's log probabilities are not asked from the engine"},
	"chat_template":          {effect: refused, why: whyPrompt},
	"documents":              {effect: refused, harmless: isEmpty, why: whyPrompt},
	"add_generation_prompt":  {effect: refused, harmless: isTrue, why: whyPrompt},
	"continue_final_message": {effect: refused, harmless: isFalse, why: whyPrompt},
	"structured_outputs":     {effect: refused, why: whyGrammar},
	"guided_json":            {effect: refused, why: whyGrammar},
	"guided_regex":           {effect: refused, why: whyGrammar},
	"guided_choice":          {effect: refused, why: whyGrammar},
	"guided_grammar":         {effect: refused, why: whyGrammar},
}

// top reads one field of the request by its row.
func (r *reader) top(name string, v ojson.Value) error {
	if v.Kind() == ojson.Null {
		return nil
	}
	f, known := fields[name]
	if !known {
		r.req.Ignored = append(r.req.Ignored, ojson.Member{Key: name, Value: v})
		return nil
	}
	if f.kind != ojson.Invalid && v.Kind() != f.kind {
		return bad(name, "must be %s, not %s", f.kind, v.Kind())
	}
	if f.whole {
		if _, err := integer(name, v); err != nil {
			return err
		}
	}
	switch f.effect {
	case honoured:
		return f.read(r, v)
	case asked:
		r.req.Asked = append(r.req.Asked, ojson.Member{Key: name, Value: v})
	case ignored:
		r.req.Ignored = append(r.req.Ignored, ojson.Member{Key: name, Value: v})
	case refused:
		if f.harmless == nil || !f.harmless(v) {
			return cannot(fault.UnsupportedField, name, f.why)
		}
	}
	return nil
}

func isTrue(v ojson.Value) bool  { return v.Bool() }
func isFalse(v ojson.Value) bool { return v.Kind() == ojson.Bool && !v.Bool() }

func isEmpty(v ojson.Value) bool {
	switch v.Kind() {
	case ojson.String:
		return v.Str() == ""
	case ojson.Array, ojson.Object:
		return v.Len() == 0
	}
	return false
}

func isNumber(lit string) func(ojson.Value) bool {
	return func(v ojson.Value) bool { return v.Num() == lit }
}

func isString(any ...string) func(ojson.Value) bool {
	return func(v ojson.Value) bool {
		for _, s := range any {
			if v.Kind() == ojson.String && v.Str() == s {
				return true
			}
		}
		return false
	}
}

func isTextFormat(v ojson.Value) bool {
	t, _ := v.Get("type")
	return t.Str() == "text" && v.Len() == 1
}

func isTextOnly(v ojson.Value) bool { return v.Len() == 1 && v.At(0).Str() == "text" }

func (r *reader) toolChoice(v ojson.Value) error {
	// "none" promises a reply without calls. That holds by itself where no tools are declared; else it could only be kept
	// by changing the prompt or what the policy said, so it is refused once tools are known.
	switch {
	case v.Str() == "auto":
		return nil
	case v.Str() == "none":
		r.noCalls = true
		return nil
	}
	return cannot(fault.UnsupportedField, "tool_choice", whyCalls)
}

func (r *reader) n(v ojson.Value) error {
	if err := r.positive("n", v, &r.req.N); err != nil {
		return err
	}
	if r.req.N > 1 {
		return cannot(fault.UnsupportedField, "n", "one completion a call; send the call again for another")
	}
	return nil
}

func (r *reader) streamOptions(v ojson.Value) error {
	for _, m := range v.Members() {
		switch {
		case m.Key != "include_usage":
			r.req.Ignored = append(r.req.Ignored, ojson.Member{Key: "stream_options." + m.Key, Value: m.Value})
		case m.Value.Kind() == ojson.Bool:
			r.req.IncludeUsage = m.Value.Bool()
		case m.Value.Kind() != ojson.Null:
			return bad("stream_options.include_usage", "must be a boolean, not %s", m.Value.Kind())
		}
	}
	return nil
}

func (r *reader) kwargs(v ojson.Value) error {
	for _, m := range v.Members() {
		switch m.Key {
		case "messages", "tools", "documents", "chat_template", "add_generation_prompt", "continue_final_message", "tokenize", "return_dict":
			return cannot(fault.UnsupportedField, "chat_template_kwargs."+m.Key, whyPrompt)
		}
	}
	if err := r.whole("chat_template_kwargs", v); err != nil {
		return err
	}
	r.req.TemplateKwargs = v
	return nil
}

func (r *reader) tools(v ojson.Value) error {
	for i, t := range v.Elems() {
		at := index("tools", i)
		if t.Kind() != ojson.Object {
			return bad(at, "must be an object, not %s", t.Kind())
		}
		if k, _ := t.Get("type"); k.Str() != "function" {
			return cannot(fault.UnsupportedField, at+".type", `only "function" tools can be declared`)
		}
		if chat.ToolName(t) == "" {
			return bad(at+".function.name", "must be a string that is not empty")
		}
		if err := r.whole(at, t); err != nil {
			return err
		}
		f, _ := t.Get("function")
		if s, ok := f.Get("strict"); ok && s.Bool() {
			r.req.Asked = append(r.req.Asked, ojson.Member{Key: at + ".function.strict", Value: s})
		}
	}
	r.req.Tools = v.Elems()
	r.req.ToolsRaw = v.Raw()
	return nil
}
