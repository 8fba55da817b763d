package artifact

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// Limits on what a body may become when it is decoded, so that a small hostile file cannot fill the memory.
const (
	maxRatio   = 256     // decoded bytes per stored byte
	windowSize = 1 << 18 // of our frames
	maxWindow  = 8 << 20 // that we read
)

// Encoders are scratch space of about a megabyte each; they hold nothing between records. A few are kept for good: making
// one costs more than most records. The decoder has no state.
var (
	encoders = make(chan *zstd.Encoder, 4)
	decoder  = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderDictRaw(0, []byte(Dictionary)), zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return d
	})
)

// pack makes the stored body of a payload given in parts, compressed where that is shorter.
func pack(parts ...[]byte) (enc byte, body []byte) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	var out bytes.Buffer
	if err := compress(&out, uint32(size), parts); err == nil && out.Len() < size && size <= maxRatio*out.Len() {
		return encZstd, out.Bytes()
	}
	return encRaw, bytes.Join(parts, nil)
}

func newEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(windowSize),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderDictRaw(0, []byte(Dictionary)))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}

func takeEncoder() *zstd.Encoder {
	select {
	case e := <-encoders:
		return e
	default:
		return newEncoder()
	}
}

func keepEncoder(e *zstd.Encoder) {
	select {
	case encoders <- e:
	default:
	}
}

// compress writes an encZstd body. Each part becomes a block of its own, so that columns with different statistics do not
// share entropy tables.
func compress(out *bytes.Buffer, size uint32, parts [][]byte) error {
	out.Write(binary.LittleEndian.AppendUint32(nil, size))
	e := takeEncoder()
	defer keepEncoder(e)
	e.Reset(out)
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		if _, err := e.Write(p); err != nil {
			return err
		}
		if err := e.Flush(); err != nil {
			return err
		}
	}
	return e.Close()
}

// unpack returns the payload of a stored body. It may lie in body or in scratch, which it returns grown.
func unpack(enc byte, body, scratch []byte) (payload, grown []byte, err error) {
	switch enc {
	case encRaw:
		return body, scratch, nil
	case encZstd:
	default:
		return nil, scratch, fmt.Errorf("unknown encoding %d", enc)
	}
	if len(body) < 4 {
		return nil, scratch, fmt.Errorf("a compressed body of %d bytes", len(body))
	}
	size := uint64(binary.LittleEndian.Uint32(body))
	if size > maxRatio*uint64(len(body)) || size > math.MaxInt32 {
		return nil, scratch, fmt.Errorf("%d stored bytes claim to become %d", len(body), size)
	}
	if uint64(cap(scratch)) < size {
		scratch = make([]byte, size)
	}
	out, err := decoder().DecodeAll(body[4:], scratch[:0:size])
	if err != nil {
		return nil, scratch, fmt.Errorf("decompress: %w", err)
	}
	if uint64(len(out)) != size {
		return nil, scratch, fmt.Errorf("decompressed to %d bytes, not %d", len(out), size)
	}
	return out, scratch, nil
}

// marshal is JSON as the format wants it: members in the order of the struct, no spaces, only what must be escaped.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fault.Wrap(fault.ArtifactRecord, err, "encode a record")
	}
	return plain(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// plain writes U+FFFD as itself. The encoder escapes it where a string was no UTF-8; a reader could not tell, and would write
// other bytes.
func plain(js []byte) []byte {
	const escaped = `\ufffd`
	if !bytes.Contains(js, []byte(escaped)) {
		return js
	}
	out := make([]byte, 0, len(js))
	for i := 0; i < len(js); {
		n := 1
		switch {
		case bytes.HasPrefix(js[i:], []byte(escaped)):
			out, i = append(out, "\uFFFD"...), i+len(escaped)
			continue
		case js[i] == '\\':
			n = 2
		}
		out, i = append(out, js[i:i+n]...), i+n
	}
	return out
}

// planes lays n 32-bit values out by byte: all lowest bytes first, all highest bytes last.
func planes(n int, at func(int) uint32) []byte {
	b := make([]byte, 4*n)
	p0, p1, p2, p3 := b[:n], b[n:2*n], b[2*n:3*n], b[3*n:]
	for i := range n {
		v := at(i)
		p0[i], p1[i], p2[i], p3[i] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
	}
	return b
}

// idPlanes is the column of a followed by b.
func idPlanes(a, b []token.ID) []byte {
	return planes(len(a)+len(b), func(i int) uint32 {
		if i < len(a) {
			return uint32(a[i])
		}
		return uint32(b[i-len(a)])
	})
}

// floatPlanes is a column of log probabilities. The bits are rotated left by one, so that the exponent fills the last plane.
func floatPlanes(col []float32) []byte {
	return planes(len(col), func(i int) uint32 { return bits.RotateLeft32(math.Float32bits(col[i]), 1) })
}

func readIDs(b []byte) []token.ID {
	n := len(b) / 4
	if n == 0 {
		return nil
	}
	out := make([]token.ID, n)
	p0, p1, p2, p3 := b[:n], b[n:2*n], b[2*n:3*n], b[3*n:4*n]
	for i := range out {
		out[i] = token.ID(uint32(p0[i]) | uint32(p1[i])<<8 | uint32(p2[i])<<16 | uint32(p3[i])<<24)
	}
	return out
}

func readFloats(b []byte) []float32 {
	n := len(b) / 4
	out := make([]float32, n)
	p0, p1, p2, p3 := b[:n], b[n:2*n], b[2*n:3*n], b[3*n:4*n]
	for i := range out {
		v := uint32(p0[i]) | uint32(p1[i])<<8 | uint32(p2[i])<<16 | uint32(p3[i])<<24
		out[i] = math.Float32frombits(bits.RotateLeft32(v, -1))
	}
	return out
}

// cut splits a column's planes into its four planes.
func cut(col []byte) [4][]byte {
	n := len(col) / 4
	return [4][]byte{col[:n], col[n : 2*n], col[2*n : 3*n], col[3*n:]}
}
