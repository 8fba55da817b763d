package artifact

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Writer makes the bytes of one artifact, record by record. Each method returns the bytes to append to the file and moves
// the chain on; the caller must append them all, in order, or throw the Writer away. The bytes belong to the caller. A
// record that the format does not allow gives [fault.ArtifactRecord] and leaves the Writer as it was.
//
// A Writer is not safe for concurrent use.
type Writer struct{ s state }

// NewWriter starts an artifact. The first record must be the header.
func NewWriter() *Writer { return &Writer{newState()} }

// Resume goes on where f stops, after recovery or in another process. f stays usable.
func Resume(f *File) *Writer {
	s := f.state
	s.number = maps.Clone(s.number)
	s.blobs, s.turns = slices.Clip(s.blobs), slices.Clip(s.turns)
	return &Writer{s}
}

// Head is the head of the hash chain after the last record. Held outside the reach of whoever can change the file, it makes
// the file's content certain.
func (w *Writer) Head() trajectory.Hash { return w.s.link }

// Turns is the number of turns written.
func (w *Writer) Turns() int { return len(w.s.turns) }

// Header returns the preamble and the header record.
func (w *Writer) Header(h trajectory.Header) ([]byte, error) {
	if err := w.open(TypeHeader); err != nil {
		return nil, err
	}
	payload, err := marshal(&h)
	if err != nil {
		return nil, err
	}
	return w.frame([]byte(Preamble), TypeHeader, payload), nil
}

// Blob returns the record of a blob, and its hash. A blob that is in the file already gives no bytes.
func (w *Writer) Blob(b []byte) ([]byte, trajectory.Hash, error) {
	h := trajectory.Hash(sha256.Sum256(b))
	if err := w.open(TypeBlob); err != nil {
		return nil, h, err
	}
	if w.s.number[h] != 0 {
		return nil, h, nil
	}
	if len(b) > maxBody {
		return nil, h, refuse(fmt.Errorf("a blob of %d bytes", len(b)))
	}
	if err := w.s.addBlob(h); err != nil {
		return nil, h, refuse(err)
	}
	return w.frame(nil, TypeBlob, b), h, nil
}

// Turn returns the record of a turn. Its blobs must have been written before. t is read, not kept.
func (w *Writer) Turn(t *trajectory.Turn) ([]byte, error) {
	if err := w.open(TypeTurn); err != nil {
		return nil, err
	}
	parts, err := w.turnParts(t)
	if err != nil {
		return nil, err
	}
	if err := w.s.addTurn(t); err != nil {
		return nil, refuse(err)
	}
	return w.frame(nil, TypeTurn, parts...), nil
}

func (w *Writer) turnParts(t *trajectory.Turn) ([][]byte, error) {
	body := turnBody{Turn: t, SuffixLen: len(t.Suffix), CompletionLen: len(t.Completion),
		LogprobsLen: length(t.Logprobs), RawLen: length(t.RawLogprobs), Reply: replyOf(&t.Reply)}
	var err error
	for _, h := range t.MsgNew {
		n := w.s.number[h]
		if n == 0 {
			return nil, refuse(fmt.Errorf("turn %d: message blob %x is not in the file", t.Seq, h[:4]))
		}
		body.MsgBlobs = append(body.MsgBlobs, n)
	}
	if body.ToolsBlob, err = w.blobNumber(t, "tools", t.Tools); err != nil {
		return nil, err
	}
	if body.SettingsBlob, err = w.blobNumber(t, "settings", t.Settings); err != nil {
		return nil, err
	}
	js, err := marshal(&body)
	if err != nil {
		return nil, err
	}
	js = append(binary.LittleEndian.AppendUint32(make([]byte, 0, len(js)+4), uint32(len(js))), js...)
	parts := [][]byte{js}
	for _, col := range [][]byte{idPlanes(t.Suffix, t.Completion), floatPlanes(t.Logprobs), floatPlanes(t.RawLogprobs)} {
		p := cut(col)
		parts = append(parts, p[:]...)
	}
	return parts, nil
}

func (w *Writer) blobNumber(t *trajectory.Turn, what string, h trajectory.Hash) (uint32, error) {
	n := w.s.number[h]
	if n == 0 && h != (trajectory.Hash{}) {
		return 0, refuse(fmt.Errorf("turn %d: %s blob %x is not in the file", t.Seq, what, h[:4]))
	}
	return n, nil
}

// Delivery returns the record of what became of an answer.
func (w *Writer) Delivery(d trajectory.DeliveryFact) ([]byte, error) {
	if err := w.open(TypeDelivery); err != nil {
		return nil, err
	}
	if err := w.s.addDelivery(d); err != nil {
		return nil, refuse(err)
	}
	payload, err := marshal(&d)
	if err != nil {
		return nil, err
	}
	return w.frame(nil, TypeDelivery, payload), nil
}

// End returns the end record. Its number of turns is the Writer's; e.Turns is ignored.
func (w *Writer) End(e trajectory.End) ([]byte, error) {
	if err := w.open(TypeEnd); err != nil {
		return nil, err
	}
	e.Turns = len(w.s.turns)
	payload, err := marshal(&End{End: e, Records: w.s.records, Head: hex.EncodeToString(w.s.link[:])})
	if err != nil {
		return nil, err
	}
	return w.frame(nil, TypeEnd, payload), nil
}

func (w *Writer) open(t Type) error {
	if err := w.s.open(t); err != nil {
		return refuse(err)
	}
	return nil
}

func (w *Writer) frame(dst []byte, t Type, parts ...[]byte) []byte {
	enc, body := pack(parts...)
	dst, link := appendFrame(dst, w.s.link, t, enc, body)
	w.s.done(t, link)
	return dst
}

// Encode returns the bytes of f: the same that it was decoded from, where this version wrote them.
func Encode(f *File) ([]byte, error) {
	w := NewWriter()
	var out []byte
	for i := range f.Records {
		r := &f.Records[i]
		var b []byte
		var err error
		switch r.Type {
		case TypeHeader:
			b, err = w.Header(*r.Header)
		case TypeBlob:
			b, _, err = w.Blob(r.Blob)
		case TypeTurn:
			b, err = w.Turn(r.Turn)
		case TypeDelivery:
			b, err = w.Delivery(*r.Delivery)
		case TypeEnd:
			b, err = w.End(r.End.End)
		default:
			if err = w.open(r.Type); err == nil {
				var link trajectory.Hash
				b, link = appendFrame(nil, w.s.link, r.Type, r.Encoding, r.Body)
				w.s.done(r.Type, link)
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out, nil
}

func length(col []float32) *int {
	if col == nil {
		return nil
	}
	n := len(col)
	return &n
}

func refuse(err error) error {
	return &fault.Error{Code: fault.ArtifactRecord, Msg: "not a record of this artifact", Err: err}
}

// Mark is a place to go back to.
type Mark struct {
	link           trajectory.Hash
	records        int
	header, ended  bool
	blobs, turnLen int
}

// Mark remembers where the Writer stands.
func (w *Writer) Mark() Mark {
	s := &w.s
	return Mark{s.link, s.records, s.header, s.ended, len(s.blobs), len(s.turns)}
}

// Rewind takes back every record since m, for bytes that could not be appended.
func (w *Writer) Rewind(m Mark) {
	s := &w.s
	for _, h := range s.blobs[m.blobs:] {
		delete(s.number, h)
	}
	s.link, s.records, s.header, s.ended = m.link, m.records, m.header, m.ended
	s.blobs, s.turns = s.blobs[:m.blobs], s.turns[:m.turnLen]
}
