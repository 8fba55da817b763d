package chat

import "github.com/tito-rl/tito/internal/ojson"

// Empty is whether t says nothing: absent, null or "".
func (t Text) Empty() bool { return t.Presence != Present || t.S == "" }

// ToolName is the name under which a declared tool is called, "" where it has none. Both {"type":"function",
// "function":{"name":…}} and a bare {"name":…} are read.
func ToolName(tool ojson.Value) string {
	if f, ok := tool.Get("function"); ok && f.Kind() == ojson.Object {
		tool = f
	}
	name, _ := tool.Get("name")
	return name.Str()
}
