package sandbox_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tito-rl/tito/internal/sandbox"
)

func TestAFileInAFolderOfTheSandboxIsReadOnlyWhereItIsOne(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600), os.WriteFile(filepath.Join(dir, "file"), []byte("12345"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "out")), os.Symlink("file", filepath.Join(dir, "in")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Mkdir(filepath.Join(dir, "folder"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"file": "12345", "in": "12345"} {
		if b, err := sandbox.ReadFile(dir, name, 5); err != nil || string(b) != want {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
	for _, name := range []string{"out", "pipe", "folder", "../secret"} {
		if b, err := sandbox.ReadFile(dir, name, 5); err == nil {
			t.Errorf("%s was read: %q", name, b)
		}
	}
	if _, err := sandbox.ReadFile(dir, "file", 4); err == nil {
		t.Error("a file longer than the limit was read")
	}
	if _, err := sandbox.ReadFile(dir, "none", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	for _, name := range []string{"out", "pipe", "folder", "new"} {
		if err := sandbox.WriteFile(dir, name, []byte("x")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "secret" {
		t.Errorf("the file outside: %q %v", b, err)
	}
}
