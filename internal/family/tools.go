package family

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/ojson"
)

// Tools are the tools that a request declared.
type Tools struct{ byName map[string]ojson.Value }

func newTools(tools []ojson.Value) *Tools {
	t := &Tools{}
	if len(tools) > 0 {
		t.byName = make(map[string]ojson.Value, len(tools))
	}
	for _, v := range tools {
		t.byName[chat.ToolName(v)] = v
	}
	return t
}

// Knows is whether a call may have this name: it is declared, or nothing is.
func (t *Tools) Knows(name string) bool {
	if t == nil || t.byName == nil {
		return true
	}
	_, ok := t.byName[name]
	return ok
}

// Parameters is the JSON schema of a tool's parameters, invalid where it declares none.
func (t *Tools) Parameters(name string) ojson.Value {
	if t == nil {
		return ojson.Value{}
	}
	v := t.byName[name]
	if f, ok := v.Get("function"); ok {
		v = f
	}
	p, _ := v.Get("parameters")
	return p
}

// Types are the JSON types that a schema allows.
type Types uint8

// The types.
const (
	TypeNull Types = 1 << iota
	TypeInteger
	TypeNumber
	TypeBoolean
	TypeObject
	TypeArray
	TypeString
)

var typeNames = map[string]Types{"null": TypeNull, "integer": TypeInteger, "number": TypeNumber, "boolean": TypeBoolean,
	"object": TypeObject, "array": TypeArray, "string": TypeString}

// Property says which types the property key of the schema params may have, 0 where the schema does not say.
func Property(params ojson.Value, key string) Types {
	s := property(params, key)
	return types(params, s, 0)
}

func property(params ojson.Value, key string) ojson.Value {
	props, _ := params.Get("properties")
	if s, ok := props.Get(key); ok {
		return s
	}
	rest, _ := params.Get("additionalProperties")
	return rest
}

// types reads a schema: type, a list of types, const, enum, anyOf, oneOf, allOf, and $ref inside root.
func types(root, s ojson.Value, depth int) (out Types) {
	const deep = 8 // of a schema that refers to itself
	if depth > deep || s.Kind() != ojson.Object {
		return 0
	}
	if ref, ok := s.Get("$ref"); ok {
		return types(root, resolve(root, ref.Str()), depth+1)
	}
	if v, ok := s.Get("type"); ok {
		if v.Kind() == ojson.String {
			return typeNames[v.Str()]
		}
		for _, e := range v.Elems() {
			out |= typeNames[e.Str()]
		}
		return out
	}
	if v, ok := s.Get("const"); ok {
		return kind(v)
	}
	if v, ok := s.Get("enum"); ok {
		for _, e := range v.Elems() {
			out |= kind(e)
		}
		return out
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		v, _ := s.Get(word)
		for _, e := range v.Elems() {
			t := types(root, e, depth+1)
			if t == 0 && word != "allOf" {
				return 0 // one branch allows anything
			}
			out |= t
		}
		if out != 0 {
			return out
		}
	}
	return 0
}

// resolve finds a reference such as #/$defs/Item.
func resolve(root ojson.Value, ref string) ojson.Value {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return ojson.Value{}
	}
	for _, key := range strings.Split(path, "/") {
		root, ok = root.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
		if !ok {
			return ojson.Value{}
		}
	}
	return root
}

func kind(v ojson.Value) Types {
	switch v.Kind() {
	case ojson.Null:
		return TypeNull
	case ojson.Bool:
		return TypeBoolean
	case ojson.Number:
		if strings.ContainsAny(string(v.Raw()), ".eE") {
			return TypeNumber
		}
		return TypeInteger
	case ojson.Object:
		return TypeObject
	case ojson.Array:
		return TypeArray
	}
	return TypeString
}

// Typed is a value that came as bare text, as JSON of one of the types that its schema allows: the first that fits, in the
// order null, integer, number, boolean, object, array, string. Numbers, objects and arrays keep their spelling. Python's
// None, True and False are read where the schema allows null or a boolean. With no types it is a string. ok is false
// where nothing fits, and the value is a string all the same.
func Typed(text string, ts Types) (json string, ok bool) {
	bare := strings.Trim(text, " \t\r\n")
	v, err := ojson.Parse([]byte(bare))
	is := func(want Types) bool { return ts&want != 0 }
	switch {
	case ts == 0:
	case is(TypeNull) && (bare == "null" || bare == "None"):
		return "null", true
	case is(TypeInteger|TypeNumber) && err == nil && v.Kind() == ojson.Number && (is(TypeNumber) || kind(v) == TypeInteger):
		return bare, true
	case is(TypeBoolean) && (bare == "true" || bare == "True"):
		return "true", true
	case is(TypeBoolean) && (bare == "false" || bare == "False"):
		return "false", true
	case is(TypeObject) && err == nil && v.Kind() == ojson.Object, is(TypeArray) && err == nil && v.Kind() == ojson.Array:
		return bare, true
	}
	return string(ojson.AppendString(nil, text)), ts == 0 || is(TypeString)
}

// Duplicates is whether an object in v has a key twice.
func Duplicates(v ojson.Value) bool {
	if v.HasDuplicates() {
		return true
	}
	for _, m := range v.Members() {
		if Duplicates(m.Value) {
			return true
		}
	}
	for _, e := range v.Elems() {
		if Duplicates(e) {
			return true
		}
	}
	return false
}
