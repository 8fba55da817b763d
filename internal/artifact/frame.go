package artifact

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/trajectory"
)

// A frame is
//
//	u32 length of the body | u8 type | u8 encoding | u16 head check | body | u32 checksum | 8 bytes chain
//
// all little-endian. The head check is the low half of the CRC-32 of the six bytes before it, so that a damaged length is
// told from a cut file. The CRC-32 is zlib's, which every language has. The checksum is the CRC-32 of head and body. The chain bytes are the first eight of
// SHA-256(previous link, head, body); the first link is SHA-256(preamble).
const (
	headSize  = 8
	tailSize  = 12
	frameSize = headSize + tailSize

	maxBody = math.MaxInt32 // stored bytes
)

// Encodings of a body.
const (
	encRaw  = 0
	encZstd = 1 // u32 size when decoded, then one zstd frame
)

func firstLink() trajectory.Hash { return sha256.Sum256([]byte(Preamble)) }

func nextLink(prev trajectory.Hash, frame []byte) trajectory.Hash {
	h := sha256.New()
	h.Write(prev[:])
	h.Write(frame)
	return trajectory.Hash(h.Sum(nil))
}

// appendFrame adds a record to dst and returns the new head of the chain.
func appendFrame(dst []byte, prev trajectory.Hash, t Type, enc byte, body []byte) ([]byte, trajectory.Hash) {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(body)))
	dst = append(dst, byte(t), enc)
	dst = binary.LittleEndian.AppendUint16(dst, headCheck(dst[start:]))
	dst = append(dst, body...)
	link := nextLink(prev, dst[start:])
	dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
	return append(dst, link[:8]...), link
}

func headCheck(head []byte) uint16 { return uint16(crc32.ChecksumIEEE(head[:6])) }

// frame is one record as it lies in a file.
type frame struct {
	typ  Type
	enc  byte
	body []byte
	size int // of the whole frame
	link trajectory.Hash
}

// readFrame reads the frame at the start of b. prev is the link before it. i and at say where for errors.
func readFrame(b []byte, prev trajectory.Hash, i, at int) (frame, error) {
	if len(b) < headSize {
		return frame{}, fault.New(fault.ArtifactTruncated, "the file ends inside the head of record %d at byte %d", i, at)
	}
	if headCheck(b) != binary.LittleEndian.Uint16(b[6:]) {
		return frame{}, fault.New(fault.ArtifactChecksum, "the head of record %d at byte %d is damaged", i, at)
	}
	n := uint64(binary.LittleEndian.Uint32(b))
	if n > maxBody {
		return frame{}, fault.New(fault.ArtifactRecord, "record %d at byte %d claims %d bytes", i, at, n)
	}
	if uint64(len(b)) < frameSize+n {
		return frame{}, fault.New(fault.ArtifactTruncated, "the file ends inside record %d at byte %d, %d bytes short",
			i, at, frameSize+n-uint64(len(b)))
	}
	f := frame{typ: Type(b[4]), enc: b[5], body: b[headSize : headSize+n], size: frameSize + int(n)}
	framed, tail := b[:headSize+n], b[headSize+n:f.size]
	if crc32.ChecksumIEEE(framed) != binary.LittleEndian.Uint32(tail) {
		return frame{}, fault.New(fault.ArtifactChecksum, "record %d at byte %d is damaged", i, at)
	}
	f.link = nextLink(prev, framed)
	if string(f.link[:8]) != string(tail[4:]) {
		return frame{}, fault.New(fault.ArtifactChain, "record %d at byte %d does not follow the record before it", i, at)
	}
	return f, nil
}
