package qualify

import (
	"encoding/json"
	"io/fs"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/vectors"
)

// Data reads what is recorded in vectors/qualify: the refutations that are known, and references.
func Data() ([]Known, []Recorded, error) {
	var known []Known
	if err := read("qualify/known.json", &known); err != nil {
		return nil, nil, err
	}
	files, err := fs.Glob(vectors.FS, "qualify/recorded_*.json")
	if err != nil {
		return nil, nil, fault.Wrap(fault.InternalError, err, "recorded references")
	}
	var recorded []Recorded
	for _, f := range files {
		var r Recorded
		if err := read(f, &r); err != nil {
			return nil, nil, err
		}
		recorded = append(recorded, r)
	}
	return known, recorded, nil
}

func read(name string, v any) error {
	b, err := fs.ReadFile(vectors.FS, name)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	return fault.Wrap(fault.InternalError, err, "%s", name)
}
