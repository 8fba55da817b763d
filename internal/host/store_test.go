package host_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
)

// disk is a store whose journals ask before they append or commit.
type disk struct {
	store.Journals
	append func(n int) error // n counts the appends of a journal, the header's being 1
	commit func(n int) error
	create error
}

func (d *disk) Create(name string) (store.Journal, error) {
	if d.create != nil {
		return nil, d.create
	}
	j, err := d.Journals.Create(name)
	return &journal{Journal: j, d: d}, err
}

func (d *disk) Resume(name string) (store.Journal, artifact.Recovery, error) {
	return d.Journals.Resume(name)
}

type journal struct {
	store.Journal
	d  *disk
	mu sync.Mutex
	n  int
	at map[int64]int // the append that ends at a position
}

func (j *journal) Append(b []byte) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.n++
	if j.d.append != nil {
		if err := j.d.append(j.n); err != nil {
			return 0, err
		}
	}
	pos, err := j.Journal.Append(b)
	if j.at == nil {
		j.at = map[int64]int{}
	}
	j.at[pos] = j.n
	return pos, err
}

func (j *journal) Commit(ctx context.Context, pos int64) error {
	j.mu.Lock()
	n := j.at[pos]
	j.mu.Unlock()
	if j.d.commit != nil {
		if err := j.d.commit(n); err != nil {
			return err
		}
	}
	return j.Journal.Commit(ctx, pos)
}

func on(d *disk, durability store.Durability) func(*rig) {
	return func(r *rig) {
		r.c.Durability = durability
		r.keep = func(s store.Journals) store.Journals { d.Journals = s; return d }
	}
}

// The first turn is the second append, its delivery the third, the second turn the fourth.
func TestWhatCannotBeRecordedIsNotAnswered(t *testing.T) {
	full := func(from int) func(int) error {
		return func(n int) error {
			if n >= from {
				return fault.New(fault.DiskFull, "no space")
			}
			return nil
		}
	}
	for _, c := range []struct {
		name string
		d    *disk
		good int // answers
		left int // turns in the journal
	}{
		{"append of a turn", &disk{append: full(2)}, 0, 0},
		{"append of a delivery", &disk{append: full(3)}, 1, 1},
		{"append of the second turn", &disk{append: full(4)}, 1, 1},
		{"commit of the second turn", &disk{commit: full(4)}, 1, 2},
	} {
		for _, durability := range []store.Durability{store.Process, store.Power} {
			t.Run(c.name+"/"+string(durability), func(t *testing.T) {
				r := up(t, on(c.d, durability))
				e := r.open("t1")
				for i, text := range []string{"one", "two", "three"} {
					h := r.say(ask(e, user(text), i%2 == 0))
					if i < c.good && h.Status == http.StatusOK {
						continue
					}
					if h.Status != http.StatusInsufficientStorage || h.Code != string(fault.DiskFull) || h.RetryIn == "" || h.Content != "" {
						t.Errorf("call %d: %+v", i+1, h)
					}
				}
				if s, err := r.host.Seal(t.Context(), "t1", "done"); fault.CodeOf(err) != fault.DiskFull || s.Refused[fault.DiskFull] != 3-c.good {
					t.Errorf("%+v, %v", s, err)
				}
				rec, err := artifact.Recover(r.journal("t1"))
				if err != nil || rec.Lost != 0 || rec.Turns != c.left || rec.File.Ended() {
					t.Errorf("left %+v, %v", rec, err)
				}
			})
		}
	}
}

func TestInPowerDurabilityAnAnswerWaitsForTheDiskAndNothingElseDoes(t *testing.T) {
	waiting, synced := make(chan struct{}), make(chan struct{})
	d := &disk{commit: func(n int) error {
		if n == 2 {
			close(waiting)
			<-synced
		}
		return nil
	}}
	r := up(t, on(d, store.Power))
	e := r.open("t1")
	first := make(chan heard, 1)
	go func() { first <- r.hear(r.post(t.Context(), ask(e, user("one"), false))) }()
	<-waiting
	if h := r.say(ask(e, user("two"), false)); h.Status != http.StatusOK { // its own commit covers the first turn's bytes too
		t.Error(h)
	}
	if h := <-first; h.Status != http.StatusOK {
		t.Error(h)
	}
	<-r.served
	close(synced)
	r.seal("t1")
	r.recorded("t1", good, good)

	waiting, synced = make(chan struct{}), make(chan struct{})
	e = r.open("t2")
	go func() { first <- r.hear(r.post(t.Context(), ask(e, user("one"), false))) }()
	<-waiting
	select {
	case h := <-first:
		t.Errorf("answered before the disk had it: %+v", h)
	default:
	}
	close(synced)
	if h := <-first; h.Status != http.StatusOK {
		t.Error(h)
	}
	<-r.served
	r.seal("t2")
	r.recorded("t2", good)
}

func TestATrajectoryThatCannotBeginIsNotThere(t *testing.T) {
	d := &disk{create: fault.New(fault.DiskFull, "no space")}
	r := up(t, on(d, store.Process))
	o := host.Open{Identities: trajectory.Identities{Trajectory: "t1"}, Token: "k"}
	if _, err := r.host.Open(t.Context(), o); fault.CodeOf(err) != fault.DiskFull {
		t.Error(err)
	}
	if h := r.say(ask(host.Endpoint{Path: "/t/t1/v1", Token: "k"}, user("one"), false)); h.Status != http.StatusNotFound {
		t.Error(h)
	}
	if _, err := r.host.Seal(t.Context(), "t1", ""); fault.CodeOf(err) != fault.UnknownRoute {
		t.Error(err)
	}
	d.create = nil
	e := r.open("t1")
	if _, err := r.host.Open(t.Context(), o); fault.CodeOf(err) != fault.SessionInvariant {
		t.Errorf("twice: %v", err)
	}
	if h := r.say(ask(e, user("one"), false)); h.Status != http.StatusOK {
		t.Error(h)
	}
	r.seal("t1")
	if _, err := r.host.Open(t.Context(), o); fault.CodeOf(err) != fault.StoreFailed {
		t.Errorf("over a finished one: %v", err)
	}
	for _, bad := range []string{"", ".", "..", "../x", "/abs"} {
		o.Trajectory = bad
		if _, err := r.host.Open(t.Context(), o); err == nil {
			t.Errorf("%q was opened", bad)
		}
	}
}
