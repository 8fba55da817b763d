// Package artifact turns the records of a trajectory into the bytes of trajectory.tito and back.
//
// A trajectory's journal is its artifact: a first line with the format's name and version, then framed records, each with a
// checksum and a link of a hash chain. spec/artifact.md is the format; this package is one reader and writer of it. The
// same records in the same order give the same bytes, and what was decoded encodes to the bytes that it came from.
//
// The package is pure: bytes come in and go out. It knows nothing of files, of matching or continuity, or of what a turn is
// worth; it checks only what a record says about itself and about the records before it.
package artifact

import "github.com/tito-rl/tito/internal/trajectory"

// Preamble is the first line of a file: the format's name and its version.
const Preamble = namePart + "1\n"

const namePart = "tito-artifact/"

// Type says what a record holds. Types from 0x80 up are optional: a reader that does not know one skips it. An unknown type
// below is refused.
type Type uint8

// The record types.
const (
	TypeHeader   Type = 1
	TypeBlob     Type = 2
	TypeTurn     Type = 3
	TypeDelivery Type = 4
	TypeEnd      Type = 5
)

// Optional is whether a reader may skip a record of a type that it does not know.
func (t Type) Optional() bool { return t&0x80 != 0 }

func (t Type) String() string {
	switch t {
	case TypeHeader:
		return "header"
	case TypeBlob:
		return "blob"
	case TypeTurn:
		return "turn"
	case TypeDelivery:
		return "delivery"
	case TypeEnd:
		return "end"
	}
	return "unknown"
}

// Record is one record of a file. Exactly one of the pointers is set for a known type other than blob.
type Record struct {
	Type     Type
	Offset   int                      // where its frame starts
	Size     int                      // bytes of its frame
	Header   *trajectory.Header       // TypeHeader
	Blob     []byte                   // TypeBlob
	Hash     trajectory.Hash          // TypeBlob
	Turn     *trajectory.Turn         // TypeTurn
	Delivery *trajectory.DeliveryFact // TypeDelivery
	End      *End                     // TypeEnd
	Body     []byte                   // stored body of an optional record of unknown type
	Encoding byte                     // of Body
}

// End is the closing record: the trajectory's end and what it seals.
type End struct {
	trajectory.End
	Records int    `json:"records"` // before the end record, optional ones included
	Head    string `json:"head"`    // hexadecimal; the chain's head before the end record
}

// File is a decoded artifact. Its records may be shared with a [trajectory.Tree]; nobody changes them.
type File struct {
	Header  trajectory.Header
	Records []Record
	Head    trajectory.Hash // of the chain, after the last record
	Size    int             // bytes up to the end of the last whole record
	Turns   int
	End     *End // nil while the trajectory is open

	state state
}

// Ended is whether the file has its end record.
func (f *File) Ended() bool { return f.End != nil }
