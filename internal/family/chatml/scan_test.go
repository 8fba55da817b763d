package chatml

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestTheScannerAgreesWithTheParser(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	alphabet := []string{`{`, `}`, `[`, `]`, `"`, `:`, `,`, ` `, `a`, `1`, `-`, `true`, `null`, `"a"`, `\`, `\n`, "\n", `\u00e9`, `{"a":`, `""`, `1.5e3`}
	for range 30000 {
		var sb strings.Builder
		for range r.IntN(8) {
			sb.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		s := sb.String()
		var sc scanner
		sc.Text(s)
		if isObject(s) && (!sc.whole() || len(sc.ends) != 1) {
			t.Fatalf("%q is an object, the scanner says %+v", s, sc)
		}
		if vs, ok := split(s); ok && len(vs) > 1 && !sc.whole() {
			t.Fatalf("%q", s)
		}
	}
}
