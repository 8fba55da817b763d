package task

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/fault"
)

// Checksum is the SHA-256 of the task's folder, as the Python package dirhash computes it: of names and contents, not of
// modes or times; links are followed, empty folders do not count.
func (t *Task) Checksum() (string, error) {
	sum, _, err := hashDir(t.Dir, 0)
	return sum, fault.Wrap(fault.BadTask, err, "hashing task %s", t.Name)
}

func hashDir(dir string, depth int) (sum string, files int, err error) {
	if depth > 64 {
		return "", 0, fault.New(fault.BadTask, "%s: folders lie too deep, or a link leads in a circle", dir)
	}
	es, err := os.ReadDir(dir)
	if err != nil {
		return "", 0, err
	}
	var all []string
	for _, e := range es {
		p := filepath.Join(dir, e.Name())
		fi, err := os.Stat(p)
		if err != nil {
			return "", 0, err
		}
		kind, h := "data", ""
		if fi.IsDir() {
			var n int
			if h, n, err = hashDir(p, depth+1); err != nil {
				return "", 0, err
			}
			if n == 0 {
				continue
			}
			kind = "dirhash"
			files += n
		} else if fi.Mode().IsRegular() {
			if h, err = hashFile(p); err != nil {
				return "", 0, err
			}
			files++
		} else {
			continue
		}
		all = append(all, kind+":"+h+"\x00name:"+e.Name())
	}
	slices.Sort(all)
	b := sha256.Sum256([]byte(strings.Join(all, "\x00\x00")))
	return hex.EncodeToString(b[:]), files, nil
}

func hashFile(p string) (string, error) {
	f, err := os.Open(p)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
