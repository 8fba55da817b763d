package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// TestMain runs the test binary as a helper process where a test asks for one.
func TestMain(m *testing.M) {
	switch os.Getenv("TITO_STORE_HELPER") {
	case "append":
		helperAppend()
	case "lock":
		helperLock()
	case "fill":
		helperFill()
	case "":
		goleak.VerifyTestMain(m)
	}
}

func helper(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "TITO_STORE_HELPER="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

func must[T any](v T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	return v
}

func header() trajectory.Header {
	return trajectory.Header{Identities: trajectory.Identities{Trajectory: "t"}, Custody: "host"}
}

func turn(seq, size int) *trajectory.Turn {
	n := &trajectory.Turn{Seq: trajectory.Seq(seq), Class: trajectory.ClassPolicy, Prompt: trajectory.PromptEchoed, Sampling: chat.Neutral(),
		Finish: trajectory.FinishStop, Stop: -1, Completion: make([]token.ID, size)}
	n.Logprobs = make([]float32, size)
	return n
}

// journalOf is the bytes of a journal of n turns.
func journalOf(t *testing.T, n int) []byte {
	t.Helper()
	w := artifact.NewWriter()
	out, err := w.Header(header())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		b, err := w.Turn(turn(i+1, 4))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

func put(t *testing.T, j store.Journal, b []byte) {
	t.Helper()
	if err := store.Put(context.Background(), j, b); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsAppendedIsReadBackAndGoesOnAfterAClose(t *testing.T) {
	for _, d := range []store.Durability{store.Process, store.Power} {
		s := store.NewDir(t.TempDir(), d)
		name := filepath.Join("trials", "a", store.JournalName)
		j, err := s.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w := artifact.NewWriter()
		b, err := w.Header(header())
		if err != nil {
			t.Fatal(err)
		}
		put(t, j, b)
		if err := errors.Join(j.Close(), j.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Append(b); fault.CodeOf(err) != fault.StoreFailed {
			t.Errorf("append after close: %v", err)
		}
		if _, err := s.Create(name); fault.CodeOf(err) != fault.StoreFailed {
			t.Errorf("a second create: %v", err)
		}
		j, rec, err := s.Resume(name)
		if err != nil || rec.Lost != 0 {
			t.Fatal(rec, err)
		}
		w = artifact.Resume(rec.File)
		if b, err = w.Turn(turn(1, 3)); err != nil {
			t.Fatal(err)
		}
		put(t, j, b)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err = s.Read(name); err != nil {
			t.Fatal(err)
		}
		if f, err := artifact.Decode(b); err != nil || f.Turns != 1 {
			t.Error(err)
		}
	}
}

func TestAJournalCutAtAnyByteIsCutBackToItsLastWholeRecordAndGoesOn(t *testing.T) {
	whole := journalOf(t, 3)
	dir := t.TempDir()
	s := store.NewDir(dir, store.Process)
	for n := range len(whole) + 1 {
		name := fmt.Sprintf("%d.tito", n)
		if err := os.WriteFile(filepath.Join(dir, name), whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		j, rec, err := s.Resume(name)
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if rec.Valid+rec.Lost != n {
			t.Fatalf("cut at %d: %d valid, %d lost", n, rec.Valid, rec.Lost)
		}
		put(t, j, whole[rec.Valid:])
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err := s.Read(name); err != nil || !bytes.Equal(b, whole) {
			t.Fatalf("cut at %d: went on to other bytes, %v", n, err)
		}
	}
}

func TestADamagedJournalIsRefusedAndLeftAsItIs(t *testing.T) {
	whole := journalOf(t, 3)
	whole[len(whole)/2] ^= 1
	dir := t.TempDir()
	path := filepath.Join(dir, "x.tito")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s := store.NewDir(dir, store.Process)
	if _, _, err := s.Resume("x.tito"); fault.CodeOf(err) != fault.ArtifactChecksum {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, whole) {
		t.Error("the file was changed", err)
	}
	if _, err := s.Read("none.tito"); fault.CodeOf(err) != fault.FileMissing {
		t.Error(err)
	}
	if _, err := s.Create("../outside.tito"); fault.CodeOf(err) != fault.StoreFailed {
		t.Error(err)
	}
}

// helperAppend appends turns and says after each commit how many there are, until it is killed.
func helperAppend() {
	s := store.NewDir(os.Args[1], store.Durability(os.Args[2]))
	j := must(s.Create(store.JournalName))
	w := artifact.NewWriter()
	must(0, store.Put(context.Background(), j, must(w.Header(header()))))
	for i := 1; ; i++ {
		must(0, store.Put(context.Background(), j, must(w.Turn(turn(i, 3000)))))
		fmt.Println(i)
	}
}

func TestEveryTurnThatWasCommittedSurvivesAKill(t *testing.T) {
	for _, d := range []string{"process", "power"} {
		for _, kills := range []int{1, 3, 20} {
			dir := t.TempDir()
			cmd := helper(t, "append", dir, d)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			told := 0
			buf := make([]byte, 1)
			var line []byte
			for told < kills { // read what it says, then kill it in the middle of what comes next
				if _, err := out.Read(buf); err != nil {
					t.Fatal(err)
				}
				if line = append(line, buf[0]); buf[0] == '\n' {
					told, _ = strconv.Atoi(strings.TrimSpace(string(line)))
					line = nil
				}
			}
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(out)
			_ = cmd.Wait()
			if said := strings.Fields(string(append(line, rest...))); len(said) > 0 && bytes.HasSuffix(rest, []byte("\n")) {
				told, _ = strconv.Atoi(said[len(said)-1])
			}
			j, rec, err := store.NewDir(dir, store.Process).Resume(store.JournalName)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Turns < told {
				t.Errorf("%s: %d turns were committed, %d survived", d, told, rec.Turns)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func helperLock() {
	l := must(store.LockDir(os.Args[1]))
	fmt.Println("locked")
	_, _ = io.ReadAll(os.Stdin)
	must(0, l.Release())
}

func TestARunDirectoryHasOneOwnerAndItIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cmd := helper(t, "lock", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	_, err = store.LockDir(dir)
	if fault.CodeOf(err) != fault.RunDirBusy || !strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("while process %d holds it: %v", cmd.Process.Pid, err)
	}
	if err := cmd.Process.Kill(); err != nil { // the kernel lets go of the lock
		t.Fatal(err)
	}
	_ = cmd.Wait()
	in.Close()
	l, err := store.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.LockDir(dir); fault.CodeOf(err) != fault.RunDirBusy {
		t.Errorf("twice in one process: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	l, err = store.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestASmallFileIsTheOldOneOrTheNewOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "result.json")
	for _, s := range []string{"one", "two"} {
		if err := store.WriteFile(path, []byte(s), 0o640); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != s {
			t.Fatal(string(b), err)
		}
	}
	if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o640 {
		t.Error(i.Mode(), err)
	}
	if err := store.WriteFile(filepath.Join(dir, "no", "such"), nil, 0o600); fault.CodeOf(err) != fault.StoreFailed {
		t.Error(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("%d files are left, %v", len(files), err)
	}
}

func TestDurabilityIsOneOfTwoWords(t *testing.T) {
	if d, err := store.ParseDurability("power"); err != nil || d != store.Power {
		t.Error(d, err)
	}
	if _, err := store.ParseDurability("hope"); fault.CodeOf(err) != fault.BadFlag {
		t.Error(err)
	}
}

// helperFill runs in a mount namespace of its own: it fills a tiny disk, frees some of it, and goes on.
func helperFill() {
	dir := os.Args[1]
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		fmt.Println("unsupported:", err)
		return
	}
	ballast := filepath.Join(dir, "ballast")
	must(0, os.WriteFile(ballast, make([]byte, 16<<10), 0o600))
	s := store.NewDir(dir, store.Process)
	j := must(s.Create(store.JournalName))
	w := artifact.NewWriter()
	must(0, store.Put(context.Background(), j, must(w.Header(header()))))
	for i := 1; ; i++ {
		n := turn(i, 800)
		for k := range n.Completion {
			n.Completion[k] = token.ID(k * k * 2654435761 >> 7)
		}
		mark := w.Mark()
		err := store.Put(context.Background(), j, must(w.Turn(n)))
		if err == nil {
			continue
		}
		if fault.CodeOf(err) != fault.DiskFull {
			must(0, err)
		}
		w.Rewind(mark)
		must(0, os.Remove(ballast))
		must(0, store.Put(context.Background(), j, must(w.Turn(n))))
		must(0, j.Close())
		f := must(artifact.Decode(must(s.Read(store.JournalName))))
		if f.Turns != i {
			must(0, fmt.Errorf("%d turns of %d", f.Turns, i))
		}
		fmt.Println("full, then went on")
		return
	}
}

func TestAFullDiskIsAFaultAndNothingIsLost(t *testing.T) {
	cmd := helper(t, "fill", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) || strings.HasPrefix(string(out), "unsupported") {
		t.Skipf("no mount namespace here: %v %s", err, out)
	}
	if err != nil || string(out) != "full, then went on\n" {
		t.Fatalf("%v: %s", err, out)
	}
}
