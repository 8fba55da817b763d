package cli

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/fault"
	"go.yaml.in/yaml/v3"
)

// place is where each key of a configuration file stands.
type place struct {
	path string
	line map[string]int
}

// bad is an error at a key, or at the top of the file.
func (p place) bad(key, format string, args ...any) *fault.Error {
	e := fault.New(fault.BadConfig, format, args...)
	e.Msg = p.at(max(p.line[key], 1)) + e.Msg
	return e
}

func (p place) at(line int) string { return p.path + ":" + strconv.Itoa(line) + ": " }

// decodeYAML reads a flat configuration file into the struct that into points to, strictly: an unknown key, a key given
// twice or a value of a wrong type is a [fault.BadConfig] that names the line.
func decodeYAML(path string, b []byte, into any) (place, error) {
	p := place{path, map[string]int{}}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return p, fault.New(fault.BadConfig, "%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return p, p.bad("", "must be a list of keys and values")
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return p, p.bad("", "holds more than one document")
	}
	fields := map[string]reflect.Value{}
	var known []string
	v := reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		fields[name] = v.Field(i)
		known = append(known, name)
	}
	top := doc.Content[0].Content
	for i := 0; i+1 < len(top); i += 2 {
		key, val := top[i], top[i+1]
		field, ok := fields[key.Value]
		had := p.line[key.Value]
		p.line[key.Value] = key.Line
		switch {
		case !ok:
			return p, p.bad(key.Value, "unknown key %q", key.Value).WithFix("the keys are %s", strings.Join(known, ", "))
		case had > 0:
			return p, p.bad(key.Value, "%s is given twice; it stands on line %d too", key.Value, had)
		case !fits(val, field.Type()) || val.Decode(field.Addr().Interface()) != nil:
			return p, p.bad(key.Value, "%s must be %s", key.Value, kind(field.Type()))
		}
	}
	return p, nil
}

// fits is whether a value is spelled as its type: YAML itself would read 1.5 as the whole number 1, and 1 as a text.
func fits(n *yaml.Node, t reflect.Type) bool {
	switch tag := n.ShortTag(); t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return tag == "!!int"
	case reflect.Float64:
		return tag == "!!int" || tag == "!!float"
	case reflect.Bool:
		return tag == "!!bool"
	case reflect.Slice:
		return tag == "!!seq" && !slices.ContainsFunc(n.Content, func(e *yaml.Node) bool { return !fits(e, t.Elem()) })
	}
	return n.ShortTag() == "!!str"
}

// kind names a type to people.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint64:
		return "a whole number, not negative"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list of texts"
	}
	return "a text"
}
