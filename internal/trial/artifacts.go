package trial

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/task"
)

// manifestEntry is one line of artifacts/manifest.json.
type manifestEntry struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Type        string `json:"type"`   // file, directory
	Status      string `json:"status"` // ok, failed, empty, skipped
	Service     string `json:"service"`
}

// artifacts downloads what the task names, at its own path under artifacts/ or at its destination. The folder
// /logs/artifacts is always there. Of two that overlap the first wins.
func (r *run) artifacts(ctx context.Context) {
	list := append([]task.Artifact{{Source: sandbox.ArtifactLogs, Service: "main"}}, r.Task.Config.Artifacts...)
	var manifest []manifestEntry
	var taken []string
	for _, a := range list {
		src := a.Source
		if !path.IsAbs(src) {
			src = path.Join(r.Task.Workdir(), src)
		}
		src = path.Clean(src)
		rel := strings.TrimPrefix(src, "/")
		if a.Destination != "" {
			rel = path.Clean(a.Destination)
		}
		m := manifestEntry{Source: a.Source, Destination: path.Join("artifacts", rel), Type: "file", Service: a.Service}
		if overlaps(rel, taken) {
			m.Status = "skipped"
		} else {
			taken = append(taken, rel)
			m.Type, m.Status = r.artifact(ctx, src, r.path("artifacts", filepath.FromSlash(rel)), a.Exclude)
		}
		manifest = append(manifest, m)
	}
	b, err := json.MarshalIndent(manifest, "", "  ")
	if err == nil {
		err = os.WriteFile(r.path("artifacts", "manifest.json"), append(b, '\n'), 0o644)
	}
	if err != nil {
		r.log.printf("artifacts: %v", err)
	}
}

func overlaps(rel string, taken []string) bool {
	for _, t := range taken {
		if rel == t || strings.HasPrefix(rel, t+"/") || strings.HasPrefix(t, rel+"/") || t == "." || rel == "." {
			return true
		}
	}
	return false
}

func (r *run) artifact(ctx context.Context, src, dst string, exclude []string) (kind, status string) {
	if src != sandbox.ArtifactLogs { // that one is the host's own folder
		if err := r.box.Download(ctx, src, dst); err != nil {
			r.log.printf("artifact %s: %v", src, err)
			return "file", "failed"
		}
	}
	fi, err := os.Lstat(dst)
	if err != nil {
		r.log.printf("artifact %s: %v", src, err)
		return "file", "failed"
	}
	if !fi.IsDir() {
		return "file", "ok"
	}
	if err := prune(dst, exclude); err != nil {
		r.log.printf("artifact %s: %v", src, err)
	}
	if es, err := os.ReadDir(dst); err == nil && len(es) == 0 {
		return "directory", "empty"
	}
	return "directory", "ok"
}

// prune removes what a pattern names by its name or by its path in dir.
func prune(dir string, patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." {
			return err
		}
		for _, pat := range patterns {
			byName, _ := path.Match(pat, d.Name())
			byPath, _ := path.Match(strings.Trim(pat, "/"), p)
			if !byName && !byPath {
				continue
			}
			err := root.RemoveAll(p)
			if err == nil && d.IsDir() {
				err = fs.SkipDir
			}
			return err
		}
		return nil
	})
}
