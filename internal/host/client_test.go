package host_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
)

func keyed(q request, key string) request {
	q.header = map[string]string{"Idempotency-Key": key}
	return q
}

func TestTheSameIdempotencyKeyGetsTheSameAnswerAndSamplesOnce(t *testing.T) {
	r := up(t, nil)
	e := r.open("t1")
	first := r.say(keyed(ask(e, user("one"), false), "k"))
	again := r.say(keyed(ask(e, user("one"), true), "k"))
	if d := cmp.Diff(first, again); d != "" || r.calls.count() != 1 {
		t.Errorf("sampled %d times\n%s", r.calls.count(), d)
	}
	if h := r.say(keyed(ask(e, user("two"), false), "k")); h.Status != http.StatusOK || r.calls.count() != 2 {
		t.Error("the same key with another request is another call", h)
	}
	if h := r.say(keyed(ask(e, user("one"), false), "other")); h.Status != http.StatusOK || r.calls.count() != 3 {
		t.Error("a delivered answer that is asked for again without its key is sampled", h)
	}
	retried := ask(e, user("one"), false)
	retried.header = map[string]string{"X-Stainless-Retry-Count": "1"}
	if h := r.say(retried); h.Status != http.StatusOK || r.calls.count() != 3 {
		t.Error("a counted retry is not sampled", h)
	}
	r.seal("t1")
	r.recorded("t1", good, good, good)
}

func TestCallsWithOneKeyShareOneAnswerWhoeverLeaves(t *testing.T) {
	for _, stay := range []int{0, 1} {
		g, wrap := gated(1)
		r := up(t, func(r *rig) { r.wrap = wrap })
		e := r.open("t1")
		ctx := make([]context.Context, 2)
		leave := make([]context.CancelFunc, 2)
		heards := make([]chan heard, 2)
		for i := range 2 {
			ctx[i], leave[i] = context.WithCancel(t.Context())
			defer leave[i]()
			heards[i] = make(chan heard, 1)
			go func() { heards[i] <- r.hear(r.post(ctx[i], keyed(ask(e, user("one"), i == 0), "k"))) }()
			if i == 0 {
				<-g.began
			}
		}
		<-r.arrived
		<-r.arrived
		leave[1-stay]()
		if h := <-heards[1-stay]; !h.Cut {
			t.Error(h)
		}
		<-r.served
		g.open <- struct{}{}
		if h := <-heards[stay]; h.Status != http.StatusOK || h.Finish != "stop" {
			t.Errorf("%d stayed: %+v", stay, h)
		}
		<-r.served
		r.seal("t1")
		r.recorded("t1", good)
		if r.calls.count() != 1 {
			t.Errorf("sampled %d times", r.calls.count())
		}
	}
}

func TestWhenAllWhoShareAnAnswerLeaveItsSamplingStops(t *testing.T) {
	g, wrap := gated(1)
	r := up(t, func(r *rig) { r.wrap = wrap })
	e := r.open("t1")
	one, leaveOne := context.WithCancel(t.Context())
	two, leaveTwo := context.WithCancel(t.Context())
	defer leaveTwo()
	go func() { r.hear(r.post(one, keyed(ask(e, user("one"), false), "k"))) }()
	<-g.began
	go func() { r.hear(r.post(two, keyed(ask(e, user("one"), false), "k"))) }()
	<-r.arrived
	<-r.arrived
	leaveOne()
	<-r.served
	leaveTwo()
	<-r.served
	<-g.stopped
	r.seal("t1")
	r.recorded("t1", fact{trajectory.FinishAbort, "", trajectory.LogprobOK, trajectory.DeliveryAborted})
}

func TestAnAnswerThatWasLostOnItsWayIsGivenAgainAndNotSampledAgain(t *testing.T) {
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
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-waiting; leave() }()
	r.hear(r.post(ctx, ask(e, user("one"), false)))
	<-r.served
	close(synced)
	if h := r.say(ask(e, user("one"), true)); h.Status != http.StatusOK || h.Finish != "stop" || r.calls.count() != 1 {
		t.Errorf("sampled %d times: %+v", r.calls.count(), h)
	}
	r.seal("t1")
	r.recorded("t1", good)
}

func TestSealingCutsWhatIsSampledAndRefusesWhatComes(t *testing.T) {
	g, wrap := gated(1)
	r := up(t, func(r *rig) { r.wrap = wrap })
	e := r.open("t1")
	answered := make(chan heard)
	go func() { answered <- r.hear(r.post(t.Context(), ask(e, user("one"), false))) }()
	<-g.began
	s := r.seal("t1")
	<-g.stopped
	if h := <-answered; h.Status != http.StatusConflict || h.Code != string(fault.SessionSealed) {
		t.Error(h)
	}
	<-r.served
	if s.Turns != 1 || s.Refused[fault.SessionSealed] != 1 {
		t.Errorf("%+v", s)
	}
	r.recorded("t1", fact{trajectory.FinishAbort, "", trajectory.LogprobOK, trajectory.DeliveryAborted})
	if h := r.say(ask(e, user("two"), false)); h.Status != http.StatusNotFound {
		t.Error(h)
	}
	if _, err := r.host.Seal(t.Context(), "t1", "again"); fault.CodeOf(err) != fault.UnknownRoute {
		t.Error(err)
	}
}

func TestSealingDoesNotWaitForAClientForEver(t *testing.T) {
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
	answered := make(chan heard)
	go func() { answered <- r.hear(r.post(t.Context(), ask(e, user("one"), false))) }()
	<-waiting // the answer is recorded and waits for the disk
	now, cancel := context.WithCancel(t.Context())
	cancel()
	sealed := make(chan error)
	go func() {
		_, err := r.host.Seal(now, "t1", "done")
		sealed <- err
	}()
	if h := <-answered; h.Code != string(fault.SessionSealed) {
		t.Error(h)
	}
	<-r.served
	close(synced)
	if err := <-sealed; err != nil {
		t.Error(err)
	}
	r.recorded("t1", fact{trajectory.FinishStop, "", trajectory.LogprobOK, trajectory.DeliveryUndelivered})
}

func TestWhateverArrivesWhileTheHostClosesIsAnsweredOrRefused(t *testing.T) {
	for _, durability := range []store.Durability{store.Process, store.Power} {
		r := up(t, func(r *rig) { r.c.Durability = durability })
		var all sync.WaitGroup
		var ends []host.Endpoint
		for i := range 4 {
			ends = append(ends, r.open(fmt.Sprint("t", i)))
		}
		started := make(chan struct{}, cap(r.served))
		for i := range 8 {
			all.Go(func() {
				for n := 0; ; n++ {
					h := r.hear(r.post(t.Context(), ask(ends[i%4], user(fmt.Sprint("say ", i, n)), i%2 == 0)))
					started <- struct{}{}
					switch {
					case h.Status == http.StatusOK && !h.Cut:
					case h.Status == http.StatusConflict && h.Code == string(fault.SessionSealed), h.Status == http.StatusNotFound:
						return
					default:
						t.Errorf("%+v", h)
						return
					}
				}
			})
		}
		for range 10 {
			<-started
		}
		var twice sync.WaitGroup
		for range 2 {
			twice.Go(func() {
				if err := r.host.Close(t.Context(), "over"); err != nil {
					t.Error(err)
				}
			})
		}
		twice.Wait()
		all.Wait()
		for i := range ends {
			r.proved(fmt.Sprint("t", i))
		}
		if _, err := r.host.Open(t.Context(), host.Open{Identities: trajectory.Identities{Trajectory: "late"}}); fault.CodeOf(err) != fault.SessionSealed {
			t.Error(err)
		}
	}
}
