package vectors

import (
	"io/fs"
	"os"
	"testing"
)

func TestEveryFolderIsEmbedded(t *testing.T) {
	folders, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range folders {
		if !d.IsDir() {
			continue
		}
		n++
		files, err := fs.ReadDir(FS, d.Name())
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files embedded, %v", d.Name(), len(files), err)
		}
	}
	if n == 0 {
		t.Fatal("no folder of vectors")
	}
}
