package harness

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Mounter is a harness that needs folders of the host in its sandbox, such as its own program.
type Mounter interface {
	Mounts() []sandbox.Mount
}

// Classify says whether a call is the policy acting on the task, from its request and its headers by lower-case name,
// and why. Without marks every call is.
func (i Info) Classify(r *chat.Request, headers map[string]string) (class trajectory.Class, why string) {
	if len(i.Marks) == 0 {
		return trajectory.ClassPolicy, ""
	}
	for _, m := range i.Marks {
		if m.fits(r, headers) {
			return m.Class, m.Why
		}
	}
	return trajectory.ClassUnclassified, "no mark of " + i.Name
}

func (m Mark) fits(r *chat.Request, headers map[string]string) bool {
	for name, want := range m.Header {
		got, ok := headers[strings.ToLower(name)]
		if !ok || want != "" && got != want {
			return false
		}
	}
	switch {
	case m.Tools == ToolsPresent && len(r.Tools) == 0, m.Tools == ToolsAbsent && len(r.Tools) > 0:
		return false
	case m.System != "" && !startsWithSystem(r, m.System):
		return false
	case m.Tool != "" && !declares(r, m.Tool):
		return false
	}
	return true
}

func startsWithSystem(r *chat.Request, text string) bool {
	return len(r.Messages) > 0 && r.Messages[0].Role == chat.System && strings.HasPrefix(r.Messages[0].Content.S, text)
}

// declares is whether the request has a tool of this name, in the shape of Chat Completions or bare.
func declares(r *chat.Request, name string) bool {
	for _, t := range r.Tools {
		if f, ok := t.Get("function"); ok {
			t = f
		}
		if n, ok := t.Get("name"); ok && n.Str() == name {
			return true
		}
	}
	return false
}
