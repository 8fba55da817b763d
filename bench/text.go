package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// settle makes paths absolute, and forgets what is not installed.
func (e *env) settle() error {
	for _, p := range []*string{&e.root, &e.tito, &e.out, &e.qwen3, &e.python} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	if _, err := os.Stat(e.tito); err != nil {
		return fmt.Errorf("%s is not built; run make build", e.tito)
	}
	for _, p := range []*string{&e.qwen3, &e.python} {
		if _, err := os.Stat(*p); err != nil {
			fmt.Fprintf(os.Stderr, "skipped: %s is not installed (make deps)\n", *p)
			*p = ""
		}
	}
	return os.MkdirAll(filepath.Join(e.out, "results"), 0o755)
}

// sources are the files below dirs whose names end in one of exts, in order of their paths, until they hold limit bytes.
func sources(limit int, exts []string, dirs ...string) ([]string, error) {
	var out []string
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || limit <= 0 {
				return err
			}
			if d.IsDir() {
				if n := d.Name(); p != dir && strings.HasPrefix(n, ".") {
					return fs.SkipDir
				}
				return nil
			}
			if !slices.Contains(exts, filepath.Ext(p)) {
				return nil
			}
			b, err := os.ReadFile(p)
			if err == nil && utf8.Valid(b) && len(b) > 0 {
				b = clip(b, min(limit, 1<<16))
				out, limit = append(out, string(b)), limit-len(b)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no text in %v", dirs)
	}
	return out, nil
}

func clip(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return b[:n]
}

// reader deals out this repository's own source text in pieces, as an agent that reads files gets it.
type reader struct {
	text string
	at   int
}

func newReader(root string) (*reader, error) {
	files, err := sources(4<<20, []string{".go", ".md"}, filepath.Join(root, "internal"), filepath.Join(root, "spec"), filepath.Join(root, "cmd"))
	if err != nil {
		return nil, err
	}
	return &reader{text: strings.Join(files, "\n")}, nil
}

// next is about n bytes, whole lines.
func (r *reader) next(n int) string {
	if r.at+n >= len(r.text) {
		r.at = 0
	}
	end := r.at + n
	if i := strings.IndexByte(r.text[end:], '\n'); i >= 0 {
		end += i + 1
	}
	s := r.text[r.at:end]
	r.at = end
	return s
}
