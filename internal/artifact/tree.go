package artifact

import (
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/trajectory"
)

// ToTree builds the trajectory that f records. A nil File, of which not even a header was whole, is
// [fault.ArtifactTruncated].
func ToTree(f *File) (*trajectory.Tree, error) {
	if f == nil {
		return nil, fault.New(fault.ArtifactTruncated, "the file ends before its header record")
	}
	t := trajectory.New(f.Header)
	for i := range f.Records {
		r := &f.Records[i]
		var err error
		switch r.Type {
		case TypeBlob:
			t.AddBlob(r.Hash, r.Blob)
		case TypeTurn:
			err = t.Add(r.Turn)
		case TypeDelivery:
			err = t.SetDelivery(*r.Delivery)
		case TypeEnd:
			err = t.Finish(r.End.End)
		}
		if err != nil {
			return nil, fault.Wrap(fault.ArtifactRecord, err, "record %d (%s) at byte %d", i, r.Type, r.Offset)
		}
	}
	return t, nil
}
