// Package store keeps trajectories' journals where a crash cannot take them, and keeps two processes out of one run directory.
//
// The contract is small, so that journals can later live on another backend: [Journals] opens a [Journal], and a journal is
// appended to. [Dir], files below one directory, is the default. What is in a journal is the business of package artifact;
// the store knows only where its last whole record ends.
package store

import (
	"context"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/fault"
)

// Durability is what an append survives once it is committed.
type Durability string

// The durabilities.
const (
	Process Durability = "process" // the end of this process, kill -9 too: the kernel has the bytes
	Power   Durability = "power"   // the loss of power: the disk has them. Commits that wait together share one fsync
)

// ParseDurability reads a flag's value.
func ParseDurability(s string) (Durability, error) {
	switch d := Durability(s); d {
	case Process, Power:
		return d, nil
	}
	return "", fault.New(fault.BadFlag, "--durability %q is not known", s).WithFix("use process or power")
}

// Journals is where journals live. It is safe for concurrent use.
type Journals interface {
	// Create makes an empty journal. A journal that exists is [fault.StoreFailed].
	Create(name string) (Journal, error)
	// Resume opens a journal to go on with it. What a crash left behind its last whole record is cut away, and the
	// Recovery says how much. Damage that no crash explains is returned with its artifact code, and nothing is changed.
	Resume(name string) (Journal, artifact.Recovery, error)
	// Read returns a journal's bytes, the remains of a cut append included. A journal that does not exist is
	// [fault.FileMissing].
	Read(name string) ([]byte, error)
}

// Journal is one trajectory's append-only bytes. It is safe for concurrent use; whoever needs an order calls Append in it.
type Journal interface {
	// Append adds whole records and returns the position after them. It does not wait for the disk. After an error the
	// journal ends where it ended before, or, where that cannot be made sure, refuses everything from then on.
	// [fault.DiskFull] means that nothing was added and a later try may succeed.
	Append(records []byte) (pos int64, err error)
	// Commit returns when all bytes before pos survive what the store's durability promises. An error means that nobody
	// knows: the journal refuses everything from then on.
	Commit(ctx context.Context, pos int64) error
	// Close commits what is left and frees the journal. Closing twice is allowed.
	Close() error
}

// Put appends records and commits them.
func Put(ctx context.Context, j Journal, records []byte) error {
	pos, err := j.Append(records)
	if err != nil {
		return err
	}
	return j.Commit(ctx, pos)
}
