package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/tokenizer"
)

func TestTheMostFrequentPairIsMergedFirst(t *testing.T) {
	got := train(map[string]int{"abc": 3, "bcd": 2, "ab": 1, "xy": 1}, 10)
	// bc occurs 5 times; then a|bc 3, bc|d 2, ab 1 and xy 1: what occurs once is left.
	want := [][2]string{{"b", "c"}, {"a", "bc"}, {"bc", "d"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestTiesAreBrokenByTheBytes(t *testing.T) {
	got := train(map[string]int{"zz": 2, "ab": 2, "aa": 2}, 2)
	if diff := cmp.Diff([][2]string{{"a", "a"}, {"a", "b"}}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestTheSameTextGivesTheSameFile(t *testing.T) {
	text := "the same text gives the same file, the same merges, the same ids: aaaa aaaa日本日本"
	var files [][]byte
	for range 3 {
		f, err := tokenizerJSON(train(pieces(text), 40))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if !bytes.Equal(files[0], files[1]) || !bytes.Equal(files[0], files[2]) {
		t.Error("the files differ")
	}
	tok, err := tokenizer.Load(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := string(tok.Decode(tok.Encode(text))); got != text {
		t.Errorf("decodes to %q", got)
	}
}

func TestTheCommittedFileIsOfThisForm(t *testing.T) {
	data, err := builtin.Bundle.ReadFile("bundle/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	if tok.VocabSize() != entries {
		t.Errorf("%d entries", tok.VocabSize())
	}
	for i, a := range tok.Added() {
		if a.Content != added[i].content || a.Special != added[i].special || int(a.ID) != entries-len(added)+i {
			t.Errorf("added token %d is %+v", i, a)
		}
	}
}
