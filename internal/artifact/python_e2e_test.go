//go:build e2e

package artifact

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/testkit"
)

func TestE2EThePythonReaderPassesItsTests(t *testing.T) {
	cmd := exec.Command(testkit.Python(t), "-m", "unittest", "discover", "tests")
	cmd.Dir = filepath.Join(testkit.Root(), "python")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestE2EThePythonReaderSeesTheSameNumbersInRandomFiles(t *testing.T) {
	const script = `
import sys, hashlib, tito
for path in sys.argv[1:]:
    t, h = tito.read(path), hashlib.sha256()
    for turn in t.turns:
        for column in (t.prompt(turn.seq), turn.completion, turn.logprobs, turn.raw_logprobs):
            h.update(b"-" if column is None else column.tobytes())
    print(h.hexdigest(), t.head.hex())
`
	dir := t.TempDir()
	args := []string{"-c", script}
	var want []string
	for seed := range uint64(6) {
		b := randomFile(t, rand.New(rand.NewPCG(seed, 9)), 12, 3000)
		path := filepath.Join(dir, strings.Repeat("x", int(seed)+1))
		if err := os.WriteFile(path, b.end(), 0o600); err != nil {
			t.Fatal(err)
		}
		args, want = append(args, path), append(want, columnsHash(t, decode(t, b.out)))
	}
	cmd := exec.Command(testkit.Python(t), args...)
	cmd.Dir = filepath.Join(testkit.Root(), "python")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := strings.Fields(string(out)); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("Python read\n%s\nGo read\n%s", out, strings.Join(want, "\n"))
	}
}

// columnsHash hashes every column of a file, little-endian, then names the chain's head.
func columnsHash(t *testing.T, f *File) string {
	tree, err := ToTree(f)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	put := func(v any, absent bool) {
		if absent {
			h.Write([]byte("-"))
			return
		}
		if err := binary.Write(h, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range tree.Turns() {
		put(tree.Prompt(n.Seq), false)
		put(n.Completion, false)
		put(n.Logprobs, n.Logprobs == nil)
		put(n.RawLogprobs, n.RawLogprobs == nil)
	}
	return hex.EncodeToString(h.Sum(nil)) + "\n" + hex.EncodeToString(f.Head[:])
}
