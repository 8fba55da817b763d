//go:build e2e

package template

import (
	"bufio"
	"flag"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "record vectors/template/probes.json anew from Python")

// oracle is Python's own rendering, one process for a whole test.
type oracle struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func startOracle(t *testing.T, args ...string) *oracle {
	t.Helper()
	cmd := exec.Command(testkit.Python(t), append([]string{"testdata/oracle.py"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the oracle: %v", err)
		}
	})
	return &oracle{t, in, bufio.NewReaderSize(out, 1<<20)}
}

// render is what Python gives: a text, or an error.
func (o *oracle) render(src, vars string) (text string, refusal string) {
	o.t.Helper()
	now := []ojson.Value{}
	for _, n := range []int{noon.Year, noon.Month, noon.Day, noon.Hour, noon.Minute, noon.Second} {
		now = append(now, ojson.IntOf(int64(n)))
	}
	return o.ask(ojson.ObjectOf(
		ojson.Member{Key: "template", Value: ojson.StringOf(src)},
		ojson.Member{Key: "vars", Value: ojson.StringOf(vars)},
		ojson.Member{Key: "now", Value: ojson.ArrayOf(now...)},
	))
}

func (o *oracle) ask(question ojson.Value) (text string, refusal string) {
	o.t.Helper()
	if _, err := o.in.Write(append(question.Raw(), '\n')); err != nil {
		o.t.Fatal(err)
	}
	reply, err := o.out.ReadBytes('\n')
	if err != nil {
		o.t.Fatal(err)
	}
	v, err := ojson.Parse(reply)
	if err != nil {
		o.t.Fatalf("%s: %v", reply, err)
	}
	if e, ok := v.Get("error"); ok {
		return "", e.Str()
	}
	s, _ := v.Get("text")
	return s.Str(), ""
}

// compare renders with both and reports whether they agree.
func (o *oracle) compare(name, src, vars string) bool {
	o.t.Helper()
	want, refusal := o.render(src, vars)
	return agree(o.t, name, src, vars, want, refusal)
}

func agree(t *testing.T, name, src, vars, want, refusal string) bool {
	t.Helper()
	got, err := renderRaw(t, src, vars)
	switch {
	case err != nil && refusal != "":
		return true
	case err != nil:
		t.Errorf("%s: refused (%v); Python gives\n%.2000s", name, err, want)
	case refusal != "":
		t.Errorf("%s: Python refuses (%s); here it gives\n%.2000s", name, refusal, got)
	case got != want:
		t.Errorf("%s: %s", name, firstDifference(got, want))
	default:
		return true
	}
	return false
}

func firstDifference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(0, i-60)
	return "\n  got  …" + quote(got, from) + "\n  want …" + quote(want, from)
}

func quote(s string, from int) string {
	b := ojson.AppendString(nil, s[min(from, len(s)):min(from+160, len(s))])
	return string(b)
}

func TestE2EProbesAgreeWithPython(t *testing.T) {
	o := startOracle(t)
	file, probes := readProbes(t)
	if *rewrite {
		record(t, o, file, probes)
		return
	}
	bad := 0
	for _, p := range probes {
		if !o.compare(p.template, p.template, p.vars) {
			bad++
		}
		if text, refusal := o.render(p.template, p.vars); p.want.IsValid() != (refusal == "") || text != p.want.Str() {
			t.Errorf("%s: the recording is out of date", p.template)
		}
	}
	t.Logf("%d probes, %d differences", len(probes), bad)
}

// record writes the probes again with what Python gives now.
func record(t *testing.T, o *oracle, file ojson.Value, probes []probe) {
	list, _ := file.Get("probes")
	var lines []string
	for i, p := range probes {
		name, _ := list.At(i).Get("vars")
		m := []ojson.Member{{Key: "vars", Value: name}, {Key: "template", Value: ojson.StringOf(p.template)}}
		if text, refusal := o.render(p.template, p.vars); refusal == "" {
			m = append(m, ojson.Member{Key: "text", Value: ojson.StringOf(text)})
		} else {
			m = append(m, ojson.Member{Key: "refused", Value: ojson.StringOf(strings.SplitN(refusal, ":", 2)[0])})
		}
		lines = append(lines, string(ojson.ObjectOf(m...).Raw()))
	}
	about, _ := file.Get("about")
	now, _ := file.Get("now")
	sets, _ := file.Get("vars")
	out := "{\n\"about\": " + string(about.Raw()) + ",\n\"now\": " + string(now.Raw()) + ",\n\"vars\": " + string(sets.Raw()) +
		",\n\"probes\": [\n" + strings.Join(lines, ",\n") + "\n]\n}\n"
	if err := os.WriteFile(probesFile(), []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
