package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/token"
)

// Text is the report for a terminal. The same report gives the same text.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "trajectory %s: %d turns, %d extends, %d to explain\n", r.Trajectory, r.Turns, r.Extends, len(r.Items))
	for i := range r.Items {
		r.Items[i].write(&b)
	}
	if len(r.Items) == 0 {
		return b.String()
	}
	names := make([]Class, 0, len(r.Classes))
	for c := range r.Classes {
		names = append(names, c)
	}
	slices.Sort(names)
	b.WriteString("\nby cause:")
	for _, c := range names {
		fmt.Fprintf(&b, " %s %d", c, r.Classes[c])
	}
	fmt.Fprintf(&b, "\ntrainable ids lost: %d · prompt ids that new segments repeat: %d\n", r.Cost, r.Repeated)
	return b.String()
}

func (it *Item) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nturn %d", it.Turn)
	if it.Parent != 0 {
		fmt.Fprintf(b, " after turn %d", it.Parent)
	}
	fmt.Fprintf(b, ": %s", it.Kind)
	if it.Reason != "" {
		fmt.Fprintf(b, " (%s)", it.Reason)
	}
	fmt.Fprintf(b, ", %s", it.Class)
	if it.Note != "" {
		fmt.Fprintf(b, ": %s", it.Note)
	}
	b.WriteString("\n")
	if it.Message >= 0 {
		fmt.Fprintf(b, "  where    message %d", it.Message)
		if it.Role != "" {
			fmt.Fprintf(b, " (%s)", it.Role)
		}
		if it.Field != "" {
			fmt.Fprintf(b, ", %s", it.Field)
		}
		if it.Sampled != 0 {
			fmt.Fprintf(b, ", sampled in turn %d", it.Sampled)
		}
		b.WriteString("\n")
	}
	if it.Parent != 0 {
		fmt.Fprintf(b, "  before   %s\n", it.Before.line())
		fmt.Fprintf(b, "  was      %s   at id %d\n", it.Was.line(), it.First)
		fmt.Fprintf(b, "  now      %s\n", it.Now.line())
	}
	switch {
	case it.Lost > 0:
		fmt.Fprintf(b, "  cost     %d trainable ids, of %d sampled ids left out\n", it.Cost, it.Lost)
	case it.Repeated > 0:
		fmt.Fprintf(b, "  cost     a new segment repeats %d prompt ids\n", it.Repeated)
	}
	if it.Avoid != "" {
		fmt.Fprintf(b, "  avoid    %s\n", it.Avoid)
	}
}

func (s Side) line() string {
	if len(s.IDs) == 0 {
		return "(nothing)"
	}
	if s.Text == "" {
		return ids(s.IDs)
	}
	return strconv.Quote(s.Text)
}

func ids(of []token.ID) string {
	out := make([]string, len(of))
	for i, id := range of {
		out[i] = strconv.FormatUint(uint64(id), 10)
	}
	return "[" + strings.Join(out, " ") + "]"
}
