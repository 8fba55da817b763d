package token

import (
	"encoding/json"
	"testing"
)

func TestAListIsWhatJSONWrites(t *testing.T) {
	for _, ids := range [][]ID{{}, {0}, {7, 10, 99, 100}, {4294967295, 0, 1000000000, 151645}} {
		want, err := json.Marshal(ids)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(append(AppendList([]byte("["), ids), ']')); got != string(want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
