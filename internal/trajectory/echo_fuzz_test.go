package trajectory

import (
	"bytes"
	"testing"
)

// Arguments that are the same by value must be found under one key, however they are written.
func FuzzEqualArgumentsAreFoundTogether(f *testing.F) {
	for _, s := range [][2]string{
		{`{"a": 1.0, "b": [true, null]}`, `{"b":[true,null],"a":1}`}, {"", " {} "}, {`{"a":1,"a":"x"}`, `{"a":"\u0078"}`}, {`{"a":`, `{"a":`},
		{`"\ud800"`, `"\uD800"`}, {`[[1],[]]`, `[[1e0],[]]`},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if _, ok := sameArguments(a, b); ok && !bytes.Equal(saidCall(nil, "f", a), saidCall(nil, "f", b)) {
			t.Errorf("%q and %q are equal, but found apart", a, b)
		}
	})
}
