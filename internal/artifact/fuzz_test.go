package artifact

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tito-rl/tito/internal/fault"
)

// FuzzDecode reads bytes as they are: nothing panics, and what is recovered is a file.
func FuzzDecode(f *testing.F) {
	f.Add(sampleFile(f).end())
	f.Add(sampleFile(f).out[:100])
	f.Add([]byte(Preamble))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := Recover(b)
		if err != nil && fault.CodeOf(err) == fault.InternalError {
			t.Fatal(err)
		}
		if rec.Valid+rec.Lost != len(b) {
			t.Fatalf("%d valid and %d lost of %d", rec.Valid, rec.Lost, len(b))
		}
		if rec.File != nil {
			if _, err := Decode(b[:rec.Valid]); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzRecords puts hostile bodies into right frames. Whatever is read encodes, and reads back as the same.
func FuzzRecords(f *testing.F) {
	whole := sampleFile(f).end()
	for _, r := range decode(f, whole).Records {
		body := whole[r.Offset+headSize:][:r.Size-frameSize]
		payload, _, err := unpack(whole[r.Offset+5], body, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(r.Type), byte(encRaw), payload)
		f.Add(byte(r.Type), whole[r.Offset+5], body)
	}
	f.Add(byte(0x90), byte(7), []byte("an optional record"))
	f.Fuzz(func(t *testing.T, typ, enc byte, body []byte) {
		b := sampleFile(t)
		file, _ := appendFrame(b.out, b.w.Head(), Type(typ), enc, body)
		got, err := Decode(file)
		if err != nil {
			if fault.CodeOf(err) != fault.ArtifactRecord {
				t.Fatal(err)
			}
			return
		}
		again, err := Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		back := decode(t, again)
		place := cmpopts.IgnoreFields(Record{}, "Size", "Offset")
		if d := cmp.Diff(got.Records, back.Records, place, cmp.Comparer(sameFloats), cmpopts.IgnoreUnexported(File{})); d != "" {
			t.Fatal(d)
		}
		if once, err := Encode(back); err != nil || !bytes.Equal(once, again) {
			t.Fatal("encoding is not stable", err)
		}
	})
}

func sameFloats(a, b []float32) bool {
	return (a == nil) == (b == nil) && bytes.Equal(rawBits(a), rawBits(b))
}

func rawBits(col []float32) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, col)
	return b.Bytes()
}
