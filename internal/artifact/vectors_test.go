package artifact

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/vectors"
)

var rewrite = flag.Bool("rewrite", false, "write vectors/artifact anew")

// vector is a NAME.json of vectors/artifact; its README says what the fields mean.
type vector struct {
	Format  string    `json:"format"`
	Comment string    `json:"comment"`
	Expect  string    `json:"expect"`
	Record  *int      `json:"record,omitempty"`
	Offset  *int      `json:"offset,omitempty"`
	Recover *recovery `json:"recover,omitempty"`
	Head    string    `json:"head,omitempty"`
	Content []content `json:"content"`
}

type recovery struct {
	Valid int `json:"valid"`
	Lost  int `json:"lost"`
	Turns int `json:"turns"`
}

type content struct {
	Type     string                   `json:"type"`
	Header   *trajectory.Header       `json:"header,omitempty"`
	Blob     string                   `json:"blob,omitempty"`
	Turn     *turnContent             `json:"turn,omitempty"`
	Delivery *trajectory.DeliveryFact `json:"delivery,omitempty"`
	End      *End                     `json:"end,omitempty"`
}

type turnContent struct {
	Seq        trajectory.Seq  `json:"seq"`
	Prompt     []token.ID      `json:"prompt"`
	Completion []token.ID      `json:"completion"`
	Logprobs   *[]uint32       `json:"logprobs"`
	Raw        *[]uint32       `json:"raw_logprobs"`
	Messages   []string        `json:"messages"`
	Facts      json.RawMessage `json:"facts"`
}

const vectorFormat = "tito-vectors/artifact/1"

var layers = map[string]fault.Code{"ok": "", "magic": fault.ArtifactMagic, "version": fault.ArtifactVersion,
	"truncated": fault.ArtifactTruncated, "checksum": fault.ArtifactChecksum, "chain": fault.ArtifactChain, "record": fault.ArtifactRecord}

// scenario is one vector's bytes and the layer at which they fail.
type scenario struct {
	comment, expect string
	file            []byte
}

func scenarios(t *testing.T) map[string]scenario {
	small := func() *build { // a header, a message and a turn
		b := newBuild(t, header())
		one := turnOf(1, ids(10, 11), ids(20, 2))
		one.MsgNew = []trajectory.Hash{b.blob(`{"role":"user","content":"hi"}`)}
		b.turn(one)
		return b
	}
	// forged appends a record with a right frame to a small file.
	forged := func(typ Type, enc byte, body []byte) []byte {
		b := small()
		out, _ := appendFrame(b.out, b.w.Head(), typ, enc, body)
		return out
	}
	turn := func(edit func(*trajectory.Turn), facts func(string) string, more ...byte) []byte {
		b := small()
		n := turnOf(2, ids(7), ids(2))
		n.Parent, n.Base, n.Keep, n.Why = 1, 1, 4, "echo"
		edit(&n)
		parts, err := b.w.turnParts(&n)
		if err != nil {
			t.Fatal(err)
		}
		if facts != nil {
			js := []byte(facts(string(parts[0][4:])))
			parts[0] = append(binary.LittleEndian.AppendUint32(nil, uint32(len(js))), js...)
		}
		out, _ := appendFrame(b.out, b.w.Head(), TypeTurn, encRaw, append(bytes.Join(parts, nil), more...))
		return out
	}
	none := func(*trajectory.Turn) {}
	whole := small()
	whole.end()
	record := func(i int) []byte { return whole.out[whole.cut[i-1]:whole.cut[i]] }
	splice := func(recs ...int) []byte {
		out := bytes.Clone(whole.out[:whole.cut[0]])
		for _, i := range recs {
			out = append(out, record(i)...)
		}
		return out
	}
	other := newBuild(t, header())
	other.blob("another message")
	replaced := append(bytes.Clone(whole.out[:whole.cut[0]]), other.out[other.cut[0]:]...)
	replaced = append(append(replaced, record(2)...), record(3)...)
	branches := sampleFile(t)
	columns := newBuild(t, header())
	n := turnOf(1, ids(1, 1<<24+5, math.MaxUint32), ids(3, 2))
	n.Logprobs = []float32{math.Float32frombits(0xffc12345), float32(math.Inf(-1)), float32(math.Copysign(0, -1))}
	n.RawLogprobs = []float32{math.SmallestNonzeroFloat32, -math.MaxFloat32}
	columns.turn(n)
	large := newBuild(t, header())
	r := rand.New(rand.NewPCG(1, 2))
	big := turnOf(1, make([]token.ID, 300), make([]token.ID, 200))
	for i := range big.Suffix {
		big.Suffix[i] = token.ID(i * i % 977)
	}
	for i := range big.Completion {
		big.Completion[i], big.Logprobs[i] = token.ID(r.IntN(2000)), float32(-r.ExpFloat64()/16)
	}
	big.Stop = -1
	large.turn(big)
	optional := small()
	optional.out, _ = appendFrame(optional.out, optional.w.Head(), 0x90, 3, []byte("of a later version"))
	optionalEnd := Resume(decode(t, optional.out))
	end, err := optionalEnd.End(trajectory.End{Reason: "finished", At: 1})
	if err != nil {
		t.Fatal(err)
	}

	return map[string]scenario{
		"ok_empty":         {"a trajectory without a turn", "ok", newBuild(t, header()).end()},
		"ok_open":          {"a journal that goes on: there is no end record", "ok", small().out},
		"ok_one_turn":      {"a message, a turn, the end", "ok", whole.out},
		"ok_branches":      {"an extend, a realign, a root that counts on an earlier turn, versions, calls, echoes, deliveries", "ok", branches.end()},
		"ok_columns":       {"ids of 32 bits; NaN with a payload, infinity and minus zero among log probabilities, and one too many of them", "ok", columns.end()},
		"ok_large":         {"a turn whose columns are compressed", "ok", large.end()},
		"ok_optional":      {"a record of an unknown optional type is skipped, and counted by the end", "ok", append(optional.out, end...)},
		"magic":            {"another kind of file", "magic", []byte("TITOART\x01 not this format at all")},
		"magic_empty_line": {"a first line without the name", "magic", []byte("\n" + string(whole.out))},
		"version_newer":    {"a later version", "version", []byte(strings.Replace(string(whole.out), "/1\n", "/2\n", 1))},
		"version_no_number": {"a version that is no number", "version",
			[]byte(strings.Replace(string(whole.out), "/1\n", "/x\n", 1))},
		"truncated_empty":      {"no byte at all", "truncated", nil},
		"truncated_first_line": {"cut in the first line", "truncated", whole.out[:9]},
		"truncated_header":     {"cut in the header record", "truncated", whole.out[:whole.cut[0]-1]},
		"truncated_head":       {"cut in a frame's head", "truncated", whole.out[:whole.cut[1]+5]},
		"truncated_body":       {"cut in a turn", "truncated", whole.out[:whole.cut[2]-40]},
		"truncated_last_byte":  {"the last byte is missing", "truncated", whole.out[:len(whole.out)-1]},
		"checksum_body":        {"a bit of a body changed, with records after it", "checksum", flip(whole.out, whole.cut[0]+12, 4)},
		"checksum_length":      {"a frame's length changed, so that it points far past the end", "checksum", flip(whole.out, whole.cut[0]+3, 0x40)},
		"checksum_torn":        {"the last record did not reach the disk whole: it is given up", "checksum", flip(small().out, len(small().out)-30, 1)},
		"checksum_zeros":       {"zeros after the last whole record, as some file systems leave them: they are given up", "checksum", append(bytes.Clone(small().out), make([]byte, 64)...)},
		"chain_swapped":        {"two records in each other's place", "chain", splice(2, 1, 3)},
		"chain_dropped":        {"a record is missing", "chain", splice(2, 3)},
		"chain_repeated":       {"a record twice", "chain", splice(1, 1, 2, 3)},
		"chain_replaced":       {"a whole record of another file in the place of one", "chain", replaced},
		"record_unknown":       {"a required record of an unknown type", "record", forged(0x10, encRaw, []byte("?"))},
		"record_encoding":      {"an unknown encoding of a known record", "record", forged(TypeBlob, 9, []byte("?"))},
		"record_compressed":    {"a body that is no zstd frame", "record", forged(TypeBlob, encZstd, []byte("\x10\x00\x00\x00not zstd"))},
		"record_bomb": {"a body that claims to become a gigabyte", "record",
			forged(TypeBlob, encZstd, append(binary.LittleEndian.AppendUint32(nil, 1<<30), 0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x40, 3, 0, 0, 'a'))},
		"record_json":            {"a turn whose facts are no JSON", "record", turn(none, func(s string) string { return s[:len(s)-1] })},
		"record_json_length":     {"a turn whose facts claim more bytes than there are", "record", forged(TypeTurn, encRaw, []byte("\xff\xff\xff\xff{}"))},
		"record_column_short":    {"a turn whose columns are shorter than it says", "record", turn(none, func(s string) string { return strings.Replace(s, `"completion":1`, `"completion":2`, 1) })},
		"record_column_long":     {"bytes after a turn's columns", "record", turn(none, nil, 0)},
		"record_column_negative": {"a column of less than no entry", "record", turn(none, func(s string) string { return strings.Replace(s, `"suffix":1`, `"suffix":-1`, 1) })},
		"record_column_huge":     {"a column whose length overflows", "record", turn(none, func(s string) string { return strings.Replace(s, `"suffix":1`, `"suffix":4611686018427387905`, 1) })},
		"record_parent_later":    {"a parent that is not recorded", "record", turn(func(n *trajectory.Turn) { n.Parent, n.Base = 7, 7 }, nil)},
		"record_parent_itself":   {"a turn that is its own parent", "record", turn(func(n *trajectory.Turn) { n.Parent, n.Base = 2, 2 }, nil)},
		"record_keep":            {"a turn that keeps more of its base than there is", "record", turn(func(n *trajectory.Turn) { n.Keep = 5 }, nil)},
		"record_seq":             {"a turn out of order", "record", turn(func(n *trajectory.Turn) { n.Seq = 3 }, nil)},
		"record_message":         {"a message that is not in the file", "record", turn(none, func(s string) string { return s[:len(s)-1] + `,"msg_new":[2]}` })},
		"record_message_keep":    {"a turn that keeps more messages than there are", "record", turn(func(n *trajectory.Turn) { n.MsgBase, n.MsgKeep = 1, 2 }, nil)},
		"record_versions":        {"version spans with a hole", "record", turn(func(n *trajectory.Turn) { n.Versions = []token.VersionSpan{{Span: token.Span{Start: 1, End: 1}}} }, nil)},
		"record_call":            {"a call outside the completion", "record", turn(func(n *trajectory.Turn) { n.Reply.Calls = []trajectory.CallFact{{Span: token.Span{Start: 0, End: 2}}} }, nil)},
		"record_delivery":        {"a delivery of a turn that is not recorded", "record", forged(TypeDelivery, encRaw, []byte(`{"seq":2,"state":"delivered","at":0}`))},
		"record_blob_twice":      {"the same blob twice", "record", forged(TypeBlob, encRaw, []byte(`{"role":"user","content":"hi"}`))},
		"record_header_twice":    {"a second header", "record", forged(TypeHeader, encRaw, []byte(`{}`))},
		"record_no_header": {"a first record that is no header", "record", func() []byte {
			out, _ := appendFrame([]byte(Preamble), firstLink(), TypeBlob, encRaw, []byte("x"))
			return out
		}()},
		"record_end_turns": {"an end that counts other turns", "record", forged(TypeEnd, encRaw, []byte(`{"reason":"finished","at":0,"turns":2,"records":3,"head":""}`))},
		"record_after_end": {"a record after the end", "record", func() []byte {
			out, _ := appendFrame(bytes.Clone(whole.out), whole.w.Head(), TypeBlob, encRaw, []byte("late"))
			return out
		}()},
	}
}

// describe is the vector of a file as this reader sees it.
func describe(t *testing.T, comment string, b []byte) vector {
	v := vector{Format: vectorFormat, Comment: comment, Content: []content{}}
	f, err := Decode(b)
	for layer, code := range layers {
		if fault.CodeOf(err) == code {
			v.Expect = layer
		}
	}
	at, i := len(Preamble), 0
	if f != nil {
		at, i = f.Size, len(f.Records)
		v.Head = hex.EncodeToString(f.Head[:])
		v.Content = contentOf(t, f, b)
	}
	if err != nil && len(b) >= len(Preamble) && v.Expect != "magic" && v.Expect != "version" {
		v.Record, v.Offset = &i, &at
	}
	if rec, err := Recover(b); err == nil {
		v.Recover = &recovery{rec.Valid, rec.Lost, rec.Turns}
	}
	return v
}

func contentOf(t *testing.T, f *File, b []byte) []content {
	tree := trajectory.New(trajectory.Header{}) // only to rebuild prompts
	out := []content{}
	for _, r := range f.Records {
		c := content{Type: r.Type.String(), Header: r.Header, Delivery: r.Delivery, End: r.End}
		switch {
		case r.Type == TypeBlob:
			c.Blob = hex.EncodeToString(r.Hash[:])
		case r.Turn != nil:
			if err := tree.Add(r.Turn); err != nil {
				t.Fatal(err)
			}
			payload, _, err := unpack(b[r.Offset+5], b[r.Offset+headSize:r.Offset+r.Size-tailSize], nil)
			if err != nil {
				t.Fatal(err)
			}
			js := bytes.Clone(payload[4:][:binary.LittleEndian.Uint32(payload)])
			c.Turn = &turnContent{Seq: r.Turn.Seq, Prompt: tree.Prompt(r.Turn.Seq), Completion: r.Turn.Completion,
				Logprobs: bitsOf(r.Turn.Logprobs), Raw: bitsOf(r.Turn.RawLogprobs), Messages: []string{}, Facts: js}
			for _, h := range tree.Messages(r.Turn.Seq) {
				c.Turn.Messages = append(c.Turn.Messages, hex.EncodeToString(h[:]))
			}
		}
		out = append(out, c)
	}
	return out
}

func bitsOf(col []float32) *[]uint32 {
	if col == nil {
		return nil
	}
	out := make([]uint32, len(col))
	for i, v := range col {
		out[i] = math.Float32bits(v)
	}
	return &out
}

func (v vector) json(t *testing.T) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRewriteVectors(t *testing.T) {
	if !*rewrite {
		t.Skip("called without -rewrite")
	}
	dir := filepath.Join(testkit.Root(), "vectors", "artifact")
	old, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range old {
		if filepath.Base(p) != "README.md" {
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("dictionary.txt", []byte(Dictionary))
	all := scenarios(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		v := describe(t, s.comment, s.file)
		if v.Expect != s.expect {
			t.Errorf("%s: fails at %q, meant was %q", name, v.Expect, s.expect)
		}
		write(name+".tito", s.file)
		write(name+".json", v.json(t))
	}
}

func TestVectors(t *testing.T) {
	names, err := fs.Glob(vectors.FS, "artifact/*.json")
	if err != nil || len(names) < 40 {
		t.Fatalf("%d vectors, %v", len(names), err)
	}
	seen := map[string]bool{}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			want, err := fs.ReadFile(vectors.FS, name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := fs.ReadFile(vectors.FS, strings.TrimSuffix(name, ".json")+".tito")
			if err != nil {
				t.Fatal(err)
			}
			var v vector
			if err := json.Unmarshal(want, &v); err != nil {
				t.Fatal(err)
			}
			if v.Format != vectorFormat {
				t.Skip("of another format")
			}
			seen[v.Expect] = true
			if d := cmp.Diff(string(want), string(describe(t, v.Comment, b).json(t))); d != "" {
				t.Error(d)
			}
			if v.Expect == "ok" {
				checkWhole(t, b)
			}
		})
	}
	for layer := range layers {
		if !seen[layer] {
			t.Errorf("no vector fails at %q", layer)
		}
	}
	if d, err := fs.ReadFile(vectors.FS, "artifact/dictionary.txt"); err != nil || string(d) != Dictionary {
		t.Error("dictionary.txt is another", err)
	}
}

func checkWhole(t *testing.T, b []byte) {
	f := decode(t, b)
	sum := len(Preamble)
	for _, r := range f.Records {
		sum += r.Size
	}
	if sum != len(b) {
		t.Errorf("records add up to %d of %d bytes", sum, len(b))
	}
	again, err := Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, b) {
		t.Error("encodes to other bytes")
	}
}
