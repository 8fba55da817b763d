package artifact

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

func decode(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDecodeThenEncodeGivesIdenticalBytes(t *testing.T) {
	check := func(b []byte) {
		t.Helper()
		got, err := Encode(decode(t, b))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, b) {
			t.Error("other bytes")
		}
	}
	b := sampleFile(t)
	check(b.out)
	check(b.end())
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		check(randomFile(t, r, 1+r.IntN(20), []int{1, 5, 300, 5000}[r.IntN(4)]).end())
	}
}

func TestTheSameRecordsGiveTheSameBytesFromAnyGoroutine(t *testing.T) {
	want := sampleFile(t).end()
	var wg sync.WaitGroup
	for i := range uint64(8) {
		wg.Go(func() {
			randomFile(t, rand.New(rand.NewPCG(i, 3)), 5, 3000) // leaves other content in the shared encoders
			if !bytes.Equal(sampleFile(t).end(), want) {
				t.Error("other bytes")
			}
		})
	}
	wg.Wait()
}

func TestEveryFactComesBack(t *testing.T) {
	b := sampleFile(t)
	f := decode(t, b.end())
	if !f.Ended() || f.Turns != 5 || f.Size != len(b.out) || f.Head != b.w.Head() {
		t.Errorf("ended %v, turns %d, size %d", f.Ended(), f.Turns, f.Size)
	}
	if d := cmp.Diff(header(), f.Header); d != "" {
		t.Error(d)
	}
	var turns []*trajectory.Turn
	at := len(Preamble)
	for _, r := range f.Records {
		if r.Offset != at {
			t.Errorf("record at %d, want %d", r.Offset, at)
		}
		at += r.Size
		if r.Turn != nil {
			turns = append(turns, r.Turn)
		}
	}
	if got := turns[0]; got.MsgNew[0] != trajectory.HashOf([]byte(`{"role":"user","content":"café 1.0"}`)) || got.Tools == (trajectory.Hash{}) {
		t.Error("blobs of turn 1 were lost")
	}
	if turns[2].Logprobs != nil || turns[4].Logprobs == nil || len(turns[4].Logprobs) != 0 {
		t.Error("a missing list and an empty one were mixed up")
	}
	if bits := math.Float32bits(turns[3].Logprobs[0]); bits != 0x7fc00123 {
		t.Errorf("NaN came back as %x", bits)
	}
	tree, err := ToTree(f)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(ids(10, 11, 12, 20, 21, 2, 30, 31, 40, 50), tree.Prompt(3)); d != "" {
		t.Error(d)
	}
}

func TestFloatsKeepEveryBit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	col := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32}
	for range 1000 {
		col = append(col, math.Float32frombits(r.Uint32()))
	}
	got := readFloats(floatPlanes(col))
	for i := range col {
		if math.Float32bits(got[i]) != math.Float32bits(col[i]) {
			t.Fatalf("%d: %x became %x", i, math.Float32bits(col[i]), math.Float32bits(got[i]))
		}
	}
}

func TestAFileCutAnywhereRecoversToItsLastWholeRecord(t *testing.T) {
	b := sampleFile(t)
	whole := b.end()
	records := decode(t, whole).Records
	for n := range len(whole) + 1 {
		rec, err := Recover(whole[:n])
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		valid, turns := 0, 0
		for i, c := range b.cut {
			if c <= n {
				valid = c
				if records[i].Type == TypeTurn {
					turns++
				}
			}
		}
		if rec.Valid != valid || rec.Lost != n-valid || rec.Turns != turns {
			t.Fatalf("cut at %d: %d valid, %d lost, %d turns; want %d, %d, %d", n, rec.Valid, rec.Lost, rec.Turns, valid, n-valid, turns)
		}
		if _, err := Decode(whole[:n]); n != valid && fault.CodeOf(err) != fault.ArtifactTruncated {
			t.Fatalf("cut at %d decodes with %v", n, err)
		}
	}
}

func TestAResumedWriterGoesOnAsIfNothingHappened(t *testing.T) {
	whole := sampleFile(t)
	want := whole.end()
	for i, c := range whole.cut {
		rec, err := Recover(want[:c+min(5, len(want)-c)])
		if err != nil {
			t.Fatal(err)
		}
		w := Resume(rec.File)
		got := bytes.Clone(want[:rec.Valid])
		for _, r := range decode(t, want).Records[i+1:] {
			var b []byte
			switch r.Type {
			case TypeBlob:
				b, _, err = w.Blob(r.Blob)
			case TypeTurn:
				b, err = w.Turn(r.Turn)
			case TypeDelivery:
				b, err = w.Delivery(*r.Delivery)
			case TypeEnd:
				b, err = w.End(r.End.End)
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b...)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("resumed after record %d: other bytes", i)
		}
	}
}

func TestATornTailIsLostAndOtherDamageIsNot(t *testing.T) {
	b := sampleFile(t)
	last := b.cut[len(b.cut)-2]
	damaged := bytes.Clone(b.out)
	damaged[last+frameSize]++
	for name, c := range map[string]struct {
		file  []byte
		valid int
		code  fault.Code
	}{
		"zeros after the last record":   {append(bytes.Clone(b.out), make([]byte, 5000)...), len(b.out), ""},
		"the last record damaged":       {damaged, last, ""},
		"a record in the middle":        {append(damaged, 1), last, fault.ArtifactChecksum},
		"a length that points far away": {flip(b.out, last+3, 0x40), last, fault.ArtifactChecksum},
	} {
		rec, err := Recover(c.file)
		if rec.Valid != c.valid || fault.CodeOf(err) != c.code {
			t.Errorf("%s: %d valid of %d, %v", name, rec.Valid, len(c.file), err)
		}
	}
}

func flip(b []byte, at int, mask byte) []byte {
	b = bytes.Clone(b)
	b[at] ^= mask
	return b
}

func TestNoFlippedBitPasses(t *testing.T) {
	whole := sampleFile(t).end()
	for i := range whole {
		if _, err := Decode(flip(whole, i, 1<<(i%8))); err == nil {
			t.Fatalf("bit %d of byte %d flipped, and nothing was said", i%8, i)
		}
	}
}

func TestRecordsThatAreSwappedDroppedOrRepeatedBreakTheChain(t *testing.T) {
	b := sampleFile(t)
	b.end()
	var recs [][]byte
	at := len(Preamble)
	for _, c := range b.cut {
		recs, at = append(recs, b.out[at:c]), c
	}
	join := func(recs ...[]byte) []byte { return append([]byte(Preamble), bytes.Join(recs, nil)...) }
	for i := range recs {
		for j := range i {
			other := append([][]byte{}, recs...)
			other[i], other[j] = other[j], other[i]
			if _, err := Decode(join(other...)); fault.CodeOf(err) != fault.ArtifactChain {
				t.Fatalf("swapped %d and %d: %v", i, j, err)
			}
		}
		dropped := append(append([][]byte{}, recs[:i]...), recs[i+1:]...)
		if f, err := Decode(join(dropped...)); i < len(recs)-1 && fault.CodeOf(err) != fault.ArtifactChain || i == len(recs)-1 && (err != nil || f.Ended()) {
			t.Fatalf("dropped %d: %v", i, err)
		}
		twice := append(append(append([][]byte{}, recs[:i+1]...), recs[i]), recs[i+1:]...)
		if _, err := Decode(join(twice...)); fault.CodeOf(err) != fault.ArtifactChain {
			t.Fatalf("repeated %d: %v", i, err)
		}
	}
}

func TestTheWriterRefusesWhatTheReaderWould(t *testing.T) {
	for name, do := range map[string]func(*build) error{
		"a second header": func(b *build) error { _, err := b.w.Header(header()); return err },
		"a turn out of order": func(b *build) error {
			x := turnOf(9, nil, ids(2))
			_, err := b.w.Turn(&x)
			return err
		},
		"a parent that is not there": func(b *build) error {
			x := turnOf(6, nil, ids(2))
			x.Parent = 6
			_, err := b.w.Turn(&x)
			return err
		},
		"a message that was not written": func(b *build) error {
			x := turnOf(6, nil, ids(2))
			x.MsgNew = []trajectory.Hash{{1}}
			_, err := b.w.Turn(&x)
			return err
		},
		"a temperature that is not a number": func(b *build) error {
			x := turnOf(6, nil, ids(2))
			x.Sampling.Temperature = math.NaN()
			_, err := b.w.Turn(&x)
			return err
		},
		"a delivery of no turn": func(b *build) error {
			_, err := b.w.Delivery(trajectory.DeliveryFact{Seq: 77})
			return err
		},
		"anything after the end": func(b *build) error {
			b.end()
			_, _, err := b.w.Blob([]byte("late"))
			return err
		},
	} {
		b := sampleFile(t)
		if err := do(b); fault.CodeOf(err) != fault.ArtifactRecord {
			t.Errorf("%s: %v", name, err)
		}
		if !b.w.s.ended {
			b.end()
		}
		decode(t, b.out) // the refused record left no trace
	}
}

func TestRewindTakesBackWhatCouldNotBeAppended(t *testing.T) {
	b := sampleFile(t)
	m := b.w.Mark()
	lost := turnOf(6, ids(1), ids(2))
	_, h, err := b.w.Blob([]byte("lost"))
	if err != nil {
		t.Fatal(err)
	}
	lost.MsgNew = []trajectory.Hash{h}
	if _, err := b.w.Turn(&lost); err != nil {
		t.Fatal(err)
	}
	b.w.Rewind(m)
	if _, err := b.w.Turn(&lost); fault.CodeOf(err) != fault.ArtifactRecord {
		t.Errorf("the blob is still thought to be in the file: %v", err)
	}
	if !bytes.Equal(b.end(), sampleFile(t).end()) {
		t.Error("other bytes")
	}
}

func TestAFileWithoutAHeaderIsNoTree(t *testing.T) {
	rec, err := Recover([]byte(Preamble))
	if err != nil || rec.File != nil || rec.Valid != 0 {
		t.Fatal(rec, err)
	}
	if _, err := ToTree(rec.File); fault.CodeOf(err) != fault.ArtifactTruncated {
		t.Error(err)
	}
}

func TestHostileLengthsAreRefusedBeforeMemoryIsTaken(t *testing.T) {
	_, zeros := pack(bytes.Repeat([]byte("a"), 200*1000)) // honest: within the ratio or stored raw
	if len(zeros) > 200*1000 {
		t.Fatal("pack grew its input")
	}
	bomb := binary.LittleEndian.AppendUint32(nil, 1<<30)
	bomb = append(bomb, 0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x40, 0x03, 0, 0, 'a')
	b := newBuild(t, header())
	file, _ := appendFrame(bytes.Clone(b.out), b.w.Head(), TypeBlob, encZstd, bomb)
	if _, err := Decode(file); fault.CodeOf(err) != fault.ArtifactRecord {
		t.Error(err)
	}
	small := binary.LittleEndian.AppendUint32(nil, 10) // says 10, holds more
	e := newEncoder()
	small = e.EncodeAll(bytes.Repeat([]byte("ab"), 500), small)
	file, _ = appendFrame(bytes.Clone(b.out), b.w.Head(), TypeBlob, encZstd, small)
	if _, err := Decode(file); fault.CodeOf(err) != fault.ArtifactRecord {
		t.Error(err)
	}
}

func TestWhatCompressesTooWellIsStoredRaw(t *testing.T) {
	b := newBuild(t, header())
	b.blob(strings.Repeat(" ", 1<<20))
	if got := decode(t, b.out).Records[1].Blob; len(got) != 1<<20 {
		t.Errorf("%d bytes came back", len(got))
	}
}

func TestATokenTakesAtMostSixBytes(t *testing.T) {
	for _, c := range []struct{ suffix, completion int }{{400, 200}, {0, 1000}, {2000, 1000}} {
		r := rand.New(rand.NewPCG(7, 7))
		b := newBuild(t, header())
		zipf := rand.NewZipf(r, 1.05, 30, 150000) // compresses no better than the ids of real text
		draw := func(n int) []token.ID {
			out := make([]token.ID, n)
			for i := range out {
				out[i] = token.ID(zipf.Uint64())
			}
			return out
		}
		keep := 0
		for s := 1; s <= 20; s++ {
			turn := turnOf(trajectory.Seq(s), draw(c.suffix), draw(c.completion))
			for i := range turn.Logprobs {
				turn.Logprobs[i] = float32(-r.ExpFloat64() * math.Pow(10, -4*r.Float64()))
			}
			if s > 1 {
				turn.Parent, turn.Base, turn.Keep = trajectory.Seq(s-1), trajectory.Seq(s-1), keep
			}
			keep += c.suffix + c.completion
			b.turn(turn)
		}
		per := float64(len(b.out)) / float64(keep)
		t.Logf("turns of %d prompt ids and %d sampled ids: %.2f bytes a token, facts, frames and chain included", c.suffix, c.completion, per)
		if per > 6 {
			t.Error("more than 6 bytes a token")
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	f := randomFile(b, rand.New(rand.NewPCG(1, 1)), 300, 2000)
	f.end()
	tokens := 0
	for _, r := range decode(b, f.out).Records {
		if r.Turn != nil {
			tokens += len(r.Turn.Suffix) + len(r.Turn.Completion)
		}
	}
	for b.Loop() {
		if _, err := Decode(f.out); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtoken/s")
	b.ReportMetric(float64(len(f.out))/float64(tokens), "B/token")
}

func BenchmarkEncodeTurn(b *testing.B) {
	turn := turnOf(1, make([]token.ID, 500), make([]token.ID, 250))
	r := rand.New(rand.NewPCG(1, 1))
	for i := range turn.Completion {
		turn.Completion[i], turn.Logprobs[i] = token.ID(r.IntN(150000)), -r.Float32()
	}
	for b.Loop() {
		w := NewWriter()
		if _, err := w.Header(header()); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Turn(&turn); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTextThatIsNoUnicodeIsWrittenAsItWillBeRead(t *testing.T) {
	for _, s := range []string{"a\xffb", "\xed\xa0\x80", `\ufffd`, `\\ufffd`, "\\\xff", "\uFFFD", "\u2028"} {
		w := NewWriter()
		var file []byte
		put := func(b []byte, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			file = append(file, b...)
		}
		put(w.Header(trajectory.Header{Harness: s}))
		put(w.Turn(&trajectory.Turn{Seq: 1, Session: s, Completion: []token.ID{1}, Reply: trajectory.Reply{Content: chat.T(s)}}))
		f, err := Decode(file)
		if err != nil {
			t.Fatal(err)
		}
		if want, got := strings.ToValidUTF8(s, "\uFFFD"), f.Records[1].Turn.Session; len([]rune(s)) == len([]rune(want)) && got != want {
			t.Errorf("%q reads as %q", s, got)
		}
		again, err := Encode(f)
		if err != nil || !bytes.Equal(again, file) {
			t.Errorf("%q: decoded and encoded again, the bytes differ: %v", s, err)
		}
	}
}
