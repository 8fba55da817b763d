package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/fault"
)

// JournalName is the file name of a trajectory's journal, which is its artifact.
const JournalName = "trajectory.tito"

// Dir keeps journals as files below one directory; a journal's name is its path there. Folders on the way are made.
type Dir struct {
	path  string
	power bool
}

// NewDir is the store below path.
func NewDir(path string, d Durability) *Dir { return &Dir{filepath.Clean(path), d == Power} }

var _ Journals = (*Dir)(nil)

// Create makes an empty journal; see [Journals].
func (d *Dir) Create(name string) (Journal, error) {
	path, err := d.local(name)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, writeFault(err, path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, fault.New(fault.StoreFailed, "%s is there already", path).WithFix("choose another name or folder")
	}
	if err != nil {
		return nil, writeFault(err, path)
	}
	if d.power {
		if err := d.syncAbove(path); err != nil {
			f.Close()
			return nil, writeFault(err, path)
		}
	}
	return &journal{name: path, power: d.power, f: f}, nil
}

// syncAbove brings every folder between the store's and path to the disk, so that the file is found after a loss of power.
func (d *Dir) syncAbove(path string) error {
	for path != d.path && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		if err := syncDir(path); err != nil {
			return err
		}
	}
	return nil
}

// Resume opens a journal to go on with it; see [Journals].
func (d *Dir) Resume(name string) (Journal, artifact.Recovery, error) {
	b, err := d.Read(name)
	if err != nil {
		return nil, artifact.Recovery{}, err
	}
	path, _ := d.local(name) // Read has checked it
	rec, err := artifact.Recover(b)
	if err != nil {
		return nil, rec, fault.Wrap(fault.ArtifactRecord, err, "recover %s", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0o644)
	if err != nil {
		return nil, rec, writeFault(err, path)
	}
	j := &journal{name: path, power: d.power, f: f, size: int64(rec.Valid)}
	if err := j.cutBack(); err != nil {
		f.Close()
		return nil, rec, writeFault(err, path)
	}
	return j, rec, nil
}

// Read returns a journal's bytes; see [Journals].
func (d *Dir) Read(name string) ([]byte, error) {
	path, err := d.local(name)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.FileMissing, err, "read journal")
	}
	return b, fault.Wrap(fault.StoreFailed, err, "read journal")
}

func (d *Dir) local(name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", fault.New(fault.StoreFailed, "journal %q lies outside %s", name, d.path)
	}
	return filepath.Join(d.path, name), nil
}

// WriteFile puts data at path so that a reader sees the old file or the new one, never a part, whatever stops this process.
func WriteFile(path string, data []byte, perm fs.FileMode) (err error) {
	defer func() {
		if err != nil {
			err = writeFault(err, path)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = os.Remove(f.Name()) // the first error is the one to tell
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Chmod(perm); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
