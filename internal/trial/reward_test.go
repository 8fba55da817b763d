package trial

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tito-rl/tito/internal/fault"
)

func TestRewardTextIsReadAsPythonReadsAFloat(t *testing.T) {
	for in, want := range map[string]float64{
		"1": 1, " 1.0\n": 1, "-1": -1, "+.5": 0.5, "1.": 1, "1e3": 1000, "1_000.5": 1000.5, "1E-2": 0.01, "1e-999": 0, "\u00a01\u2003": 1,
		"١٢": 12, "𝟎.𝟓": 0.5, "\x1c1\x1f": 1, "0x": nan, "1__0": nan, "_1": nan, "1_": nan, "1_.5": nan, "1._5": nan, "": nan, " \n": nan, ".": nan, "e5": nan,
		"0x1p3": nan, "1 2": nan, "nan": nan, "-inf": nan, "Infinity": nan, "1e999": nan, "1,5": nan, "--1": nan, "1e1_0": 1e10, "\xff": nan, "1f": nan, "١x": nan,
	} {
		got, err := pythonFloat([]byte(in))
		if math.IsNaN(want) {
			if fault.CodeOf(err) != fault.RewardBad {
				t.Errorf("%q: %v %v, want an error", in, got, err)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: %v %v, want %v", in, got, err, want)
		}
	}
}

var nan = math.NaN()

func TestRewardJSONIsAFlatObjectOfNumbers(t *testing.T) {
	dir := t.TempDir()
	for in, want := range map[string]float64{
		`{"reward": 1}`: 1, ` {"reward": 0.5, "x": 2} `: 0.5, `{"reward": true}`: 1, `{"score": 3}`: 3, `{"reward":1,"reward":0}`: 0,
		`[1]`: nan, `1`: nan, `null`: nan, `{}`: nan, `{"reward": null}`: nan, `{"reward": "1"}`: nan, `{"reward": {"a": 1}}`: nan, `{"reward": Infinity}`: nan,
		`{"reward": 1e999}`: nan, `{"reward": 1} 2`: nan, `{"reward": 1`: nan, "{\"reward\": 1, \"\xff\": 2}": nan, `{"reward": 01}`: nan, `{"a": 1, "b": 2}`: nan,
	} {
		if err := os.WriteFile(filepath.Join(dir, "reward.json"), []byte(in), 0o644); err != nil {
			t.Fatal(err)
		}
		rewards, err := readRewards(dir)
		var got float64
		if err == nil {
			got, err = mainReward(rewards)
		}
		if math.IsNaN(want) {
			if fault.CodeOf(err) != fault.RewardBad {
				t.Errorf("%s: %v %v, want an error", in, got, err)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", in, got, err, want)
		}
	}
}

func FuzzRewards(f *testing.F) {
	f.Add("1e3", `{"reward": 1}`)
	f.Add("١_٢.", `{"a": true, "b": -0}`)
	f.Fuzz(func(t *testing.T, text, object string) {
		for name, parse := range map[string]func() (map[string]float64, error){
			"text": func() (map[string]float64, error) { return parseRewardText([]byte(text)) },
			"json": func() (map[string]float64, error) { return parseRewardJSON([]byte(object)) },
		} {
			rewards, err := parse()
			if err != nil && fault.CodeOf(err) != fault.RewardBad {
				t.Errorf("%s: %v", name, err)
			}
			for k, v := range rewards {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("%s: %q is %v", name, k, v)
				}
			}
		}
	})
}
