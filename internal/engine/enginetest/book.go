package enginetest

import (
	"testing"

	"github.com/tito-rl/tito/internal/rehearsal"
)

// toyBook has a common beginning, early and late branches, a completion that another would continue but for its stop, a
// second stop, characters of several bytes, a cut reply and a reply with unusual ids.
const toyBook = `{
 "format": "tito-rehearsal/1",
 "scenes": [{
  "name": "greet",
  "match": ["say hello"],
  "steps": [
   {"when": {"turn": 0}, "replies": [
     {"content": "hello world", "weight": 0.7},
     {"content": "hello world, and more", "weight": -0.3},
     {"content": "hello", "weight": 0.1},
     {"name": "split", "content": "hello world", "split": "hello"},
     {"reasoning": "think", "calls": [{"name": "bash", "arguments": "{\"command\": \"echo 1\"}"}], "weight": 1.25},
     {"raw": "the end<|end|>"},
     {"name": "cut", "content": "the answer is long", "cut": 7, "weight": 1.5},
     {"content": "é … 漢字 🙂 the answer"}
   ]},
   {"when": {"turn": 1, "contains": "again"}, "replies": [{"content": "ans one"}, {"content": "answer two"}]},
   {"when": {"turn": 1}, "replies": [{"name": "only", "content": "the one reply to this"}]}
  ]
 }],
 "default": [{"content": "no"}, {"content": "nothing here", "weight": 2}]
}`

// Book compiles the suite's book for the toy format.
func Book(t testing.TB) *rehearsal.Policy {
	t.Helper()
	b, err := rehearsal.ParseBook([]byte(toyBook))
	if err != nil {
		t.Fatal(err)
	}
	p, err := rehearsal.Compile(b, Toy())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// greeting is a prompt of the book's first situation.
var greeting = Prompt("say hello")
