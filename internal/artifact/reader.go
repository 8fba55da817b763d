package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Decode reads an artifact. The error, if any, carries the code of the layer that failed, the record's number (from 0) and
// its offset; the File then holds the whole records before it, or is nil where there is no header. A file without an end
// record is whole as far as it goes: see [File.Ended]. The File does not refer to b.
func Decode(b []byte) (*File, error) {
	at, err := readPreamble(b)
	if err != nil {
		return nil, err
	}
	f := &File{state: newState(), Head: firstLink(), Size: at}
	var scratch []byte
	for at < len(b) {
		i := len(f.Records)
		fr, err := readFrame(b[at:], f.state.link, i, at)
		if err != nil {
			return f.orNil(), err
		}
		r := Record{Type: fr.typ, Offset: at, Size: fr.size}
		if scratch, err = f.read(&r, fr, scratch); err != nil {
			return f.orNil(), fault.Wrap(fault.ArtifactRecord, err, "record %d (%s) at byte %d", i, fr.typ, at)
		}
		f.state.done(fr.typ, fr.link)
		at += fr.size
		f.Records = append(f.Records, r)
		f.Head, f.Size, f.Turns = fr.link, at, len(f.state.turns)
	}
	if !f.state.header {
		return nil, fault.New(fault.ArtifactTruncated, "the file ends before its header record")
	}
	return f, nil
}

func (f *File) orNil() *File {
	if !f.state.header {
		return nil
	}
	return f
}

// readPreamble checks the first line and returns its length.
func readPreamble(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte(Preamble)) {
		return len(Preamble), nil
	}
	if len(b) < len(Preamble) && strings.HasPrefix(Preamble, string(b)) {
		return 0, fault.New(fault.ArtifactTruncated, "the file ends inside its first line")
	}
	rest, ok := bytes.CutPrefix(b, []byte(namePart))
	if !ok {
		return 0, fault.New(fault.ArtifactMagic, "the file does not begin with %q", namePart)
	}
	line, _, ok := bytes.Cut(rest[:min(len(rest), 20)], []byte("\n"))
	if v, err := strconv.Atoi(string(line)); ok && err == nil && v > 1 {
		return 0, fault.New(fault.ArtifactVersion, "the file is of format version %d; this program reads version 1", v).
			WithFix("read it with a newer tito")
	}
	return 0, fault.New(fault.ArtifactVersion, "the file's format version cannot be read")
}

// read decodes a frame into r and checks it against the records before it.
func (f *File) read(r *Record, fr frame, scratch []byte) ([]byte, error) {
	s := &f.state
	if err := s.open(fr.typ); err != nil {
		return scratch, err
	}
	if fr.typ.String() == "unknown" {
		if !fr.typ.Optional() {
			return scratch, fmt.Errorf("a required record of unknown type %d", fr.typ)
		}
		r.Body, r.Encoding = bytes.Clone(fr.body), fr.enc
		return scratch, nil
	}
	payload, scratch, err := unpack(fr.enc, fr.body, scratch)
	if err != nil {
		return scratch, err
	}
	switch fr.typ {
	case TypeHeader:
		r.Header = new(trajectory.Header)
		if err = json.Unmarshal(payload, r.Header); err == nil {
			f.Header = *r.Header
		}
	case TypeBlob:
		r.Blob, r.Hash = bytes.Clone(payload), sha256.Sum256(payload)
		err = s.addBlob(r.Hash)
	case TypeTurn:
		if r.Turn, err = readTurn(payload, s.blobs); err == nil {
			err = s.addTurn(r.Turn)
		}
	case TypeDelivery:
		r.Delivery = new(trajectory.DeliveryFact)
		if err = json.Unmarshal(payload, r.Delivery); err == nil {
			err = s.addDelivery(*r.Delivery)
		}
	case TypeEnd:
		r.End = new(End)
		if err = json.Unmarshal(payload, r.End); err == nil {
			err = s.addEnd(r.End)
			f.End = r.End
		}
	}
	return scratch, err
}

func readTurn(payload []byte, blobs []trajectory.Hash) (*trajectory.Turn, error) {
	if len(payload) < 4 {
		return nil, fmt.Errorf("a turn of %d bytes", len(payload))
	}
	n := uint64(binary.LittleEndian.Uint32(payload))
	if n > uint64(len(payload)-4) {
		return nil, fmt.Errorf("its JSON claims %d of %d bytes", n, len(payload)-4)
	}
	js, cols := payload[4:4+n], payload[4+n:]
	t := new(trajectory.Turn)
	body := turnBody{Turn: t}
	if err := json.Unmarshal(js, &body); err != nil {
		return nil, err
	}
	t.Reply = body.Reply.fact()
	if err := readColumns(t, &body, cols); err != nil {
		return nil, err
	}
	lookup := func(n uint32) (h trajectory.Hash, err error) {
		if n == 0 || uint64(n) > uint64(len(blobs)) {
			return h, fmt.Errorf("turn %d: blob %d is not in the file", t.Seq, n)
		}
		return blobs[n-1], nil
	}
	var err error
	for _, n := range body.MsgBlobs {
		h, err := lookup(n)
		if err != nil {
			return nil, err
		}
		t.MsgNew = append(t.MsgNew, h)
	}
	if body.ToolsBlob > 0 {
		if t.Tools, err = lookup(body.ToolsBlob); err != nil {
			return nil, err
		}
	}
	if body.SettingsBlob > 0 {
		if t.Settings, err = lookup(body.SettingsBlob); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// readColumns takes the columns from cols, which they must fill exactly.
func readColumns(t *trajectory.Turn, body *turnBody, cols []byte) error {
	lens := []int{body.SuffixLen, body.CompletionLen, 0, 0}
	if body.LogprobsLen != nil {
		lens[2] = *body.LogprobsLen
	}
	if body.RawLen != nil {
		lens[3] = *body.RawLen
	}
	left := len(cols)
	for _, n := range lens {
		if n < 0 || n > left/4 {
			return fmt.Errorf("turn %d: columns of %v entries in %d bytes", t.Seq, lens, len(cols))
		}
		left -= 4 * n
	}
	if left != 0 {
		return fmt.Errorf("turn %d: columns of %v entries in %d bytes", t.Seq, lens, len(cols))
	}
	nIDs := 4 * (body.SuffixLen + body.CompletionLen)
	ids := readIDs(cols[:nIDs])
	cols = cols[nIDs:]
	t.Suffix, t.Completion = orNil(ids[:body.SuffixLen:body.SuffixLen]), orNil(ids[body.SuffixLen:])
	if body.LogprobsLen != nil {
		t.Logprobs = readFloats(cols[:4*lens[2]])
	}
	if body.RawLen != nil {
		t.RawLogprobs = readFloats(cols[4*lens[2]:])
	}
	return nil
}

func orNil(ids []token.ID) []token.ID {
	if len(ids) == 0 {
		return nil
	}
	return ids
}

// Recovery says what is left of a file that was cut.
type Recovery struct {
	Valid int   // bytes up to the end of the last whole record
	Lost  int   // bytes after it
	Turns int   // whole turns
	File  *File // what is valid
}

// Recover finds the whole records at the start of a file that may have been cut at any byte: by a kill, a full disk or a
// loss of power. What follows them is lost only if it can be the remains of one cut append: a record that does not end, or
// a damaged one that nothing follows, or zeros. Any other damage is an error, with what comes before it in the Recovery; no
// whole record is ever given up silently. A file cut before the end of its header has nothing to go on from: Valid is 0 and
// File nil.
func Recover(b []byte) (Recovery, error) {
	f, err := Decode(b)
	r := Recovery{File: f}
	if f != nil {
		r.Valid, r.Turns = f.Size, f.Turns
	}
	r.Lost = len(b) - r.Valid
	switch fault.CodeOf(err) {
	case "", fault.ArtifactTruncated:
		return r, nil
	case fault.ArtifactChecksum:
		if tornTail(b[max(r.Valid, len(Preamble)):]) {
			return r, nil
		}
	}
	return r, err
}

// tornTail is whether damage can come from one append that did not reach the disk whole.
func tornTail(b []byte) bool {
	if len(bytes.Trim(b, "\x00")) == 0 {
		return true
	}
	return len(b) >= headSize && headCheck(b) == binary.LittleEndian.Uint16(b[6:]) &&
		uint64(len(b)) == frameSize+uint64(binary.LittleEndian.Uint32(b))
}
