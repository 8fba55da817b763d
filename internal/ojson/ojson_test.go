package ojson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/fault"
)

func parse(t *testing.T, s string) Value {
	t.Helper()
	v, err := Parse([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func TestWhatIsParsedKeepsItsExactBytes(t *testing.T) {
	src := ` {"z": 1.0, "a":1e7,"big":123456789012345678901234567890, "a" : "\u00fc\/<&>", "e":[ ], "s":"\ud83d\ude00"} `
	v := parse(t, src)
	if got := string(v.Raw()); got != strings.TrimSpace(src) {
		t.Errorf("raw: %s", got)
	}
	var nums []string
	for _, m := range v.Members() {
		nums = append(nums, m.Key+"="+m.Value.Num()+m.Value.Str())
	}
	if got := strings.Join(nums, " "); got != "z=1.0 a=1e7 big=123456789012345678901234567890 a=ü/<&> e= s=😀" {
		t.Errorf("members: %s", got)
	}
	if a, _ := v.Get("a"); a.Str() != "ü/<&>" {
		t.Error("the last duplicate does not win")
	}
	if !v.HasDuplicates() || parse(t, `{"a":{"b":1,"b":2}}`).HasDuplicates() {
		t.Error("duplicates are misjudged")
	}
}

func TestBuiltValuesEncodeCompactly(t *testing.T) {
	v := ObjectOf(
		Member{"k\n", ArrayOf(NullOf(), BoolOf(true), BoolOf(false), IntOf(-7), NumberOf("1.50"))},
		Member{"s", StringOf("<é\u2028\x7f\x01\"\\>")},
		Member{"p", parse(t, `[1 , 2]`)},
		Member{"e", ObjectOf()},
	)
	want := `{"k\n":[null,true,false,-7,1.50],"s":"<é` + "\u2028\x7f" + `\u0001\"\\>","p":[1 , 2],"e":{}}`
	if got := string(v.Raw()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if NumberOf("01").IsValid() || NumberOf("").IsValid() || NumberOf("1 ").IsValid() {
		t.Error("NumberOf takes what is no number")
	}
}

func TestLoneSurrogatesAreKeptAndDetected(t *testing.T) {
	v := parse(t, `"a\ud800b\udc00"`)
	if !HasLoneSurrogate(v.Str()) || HasLoneSurrogate("퟿😀\uE000") {
		t.Error("lone surrogates are misjudged")
	}
	if got := string(StringOf(v.Str()).Raw()); got != `"a\ud800b\udc00"` {
		t.Errorf("encoded again: %s", got)
	}
}

func TestBadInputIsRefusedWithItsPlace(t *testing.T) {
	for _, s := range []string{"", " ", "{", "[1,]", "[,1]", `{"a":1,}`, `{a:1}`, "01", "1.", ".5", "+1", "1e", "-", "nul", "truex",
		`"a`, `"\x"`, `"\u12g4"`, "\"\n\"", "1 2", "[1 2]", `{"a" 1}`, "\xff", "\"\xed\xa0\x80\"", "NaN", "\ufeff1", "'a'",
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)} {
		if _, err := Parse([]byte(s)); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%.40q: %v", s, err)
		}
	}
	parse(t, strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth))
}

func TestEqualComparesByValue(t *testing.T) {
	equal := [][2]string{
		{"60000.0", "6e4"}, {"60000", "6.00e+4"}, {"0", "-0.0e5"}, {"1e-3", "0.001"}, {"0e99999999999999999999", "0"},
		{`"\u0041"`, `"A"`}, {`{"a":1,"b":2}`, `{"b":2.0,"a":1}`}, {`{"a":9,"a":1}`, `{"a":1}`}, {"[1, 2]", "[1,2]"},
		{"123456789012345678901", "1.23456789012345678901e20"}, {`{"a":1,"a":2}`, `{"a":3,"a":2}`},
	}
	for _, c := range equal {
		if !Equal(parse(t, c[0]), parse(t, c[1])) {
			t.Errorf("%s and %s are not equal", c[0], c[1])
		}
	}
	differ := [][2]string{
		{"1", "true"}, {"0", "false"}, {"null", "0"}, {`"1"`, "1"}, {"1", "-1"}, {"123456789012345678901", "123456789012345678902"},
		{`{"a":1}`, `{"a":1,"b":2}`}, {`{"a":1}`, `{"b":1}`}, {"[1,2]", "[2,1]"}, {"10", "1"}, {"1e99999999999999999999", "1e99999999999999999998"},
	}
	for _, c := range differ {
		if Equal(parse(t, c[0]), parse(t, c[1])) {
			t.Errorf("%s and %s are equal", c[0], c[1])
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9\ud800"],"a":null}`, "[]", " true ", `"\"`, "-0.0", "{}", "[[[]]]", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Parse(b)
		if ok := json.Valid(b); ok != (err == nil) && validUTF8(b) && bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) <= MaxDepth {
			t.Fatalf("valid by encoding/json: %v, here: %v", ok, err)
		}
		if err != nil {
			return
		}
		if got, want := v.Raw(), bytes.Trim(b, " \n\r\t"); !bytes.Equal(got, want) {
			t.Fatalf("%q became %q", want, got)
		}
		again, err := Parse(rebuild(v).Raw())
		if err != nil || !Equal(v, again) && !strings.ContainsAny(string(b), "eE") {
			t.Fatalf("rebuilt as %q: %v", rebuild(v).Raw(), err)
		}
	})
}

func validUTF8(b []byte) bool { return strings.ToValidUTF8(string(b), "") == string(b) }

// rebuild is v made anew by the constructors.
func rebuild(v Value) Value {
	switch v.Kind() {
	case String:
		return StringOf(v.Str())
	case Array:
		var e []Value
		for _, x := range v.Elems() {
			e = append(e, rebuild(x))
		}
		return ArrayOf(e...)
	case Object:
		var m []Member
		for _, x := range v.Members() {
			m = append(m, Member{x.Key, rebuild(x.Value)})
		}
		return ObjectOf(m...)
	}
	return v
}

func BenchmarkParseChatRequest(b *testing.B) {
	msg := `{"role":"assistant","content":"` + strings.Repeat("some text with an escape\\n", 20) + `","tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls -la\"}"}}]},`
	doc := []byte(`{"model":"m","messages":[` + strings.Repeat(msg, 500) + `null]}`)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(doc); err != nil {
			b.Fatal(err)
		}
	}
}
