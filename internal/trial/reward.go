package trial

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
)

const maxReward = 1 << 20 // bytes of a reward file

// readRewards reads reward.json, or where there is none reward.txt, from the verifier's folder.
func readRewards(dir string) (map[string]float64, error) {
	for _, f := range []struct {
		name  string
		parse func([]byte) (map[string]float64, error)
	}{{"reward.json", parseRewardJSON}, {"reward.txt", parseRewardText}} {
		b, err := sandbox.ReadFile(dir, f.name, maxReward)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fault.New(fault.RewardBad, "%s cannot be read: %v", f.name, err)
		case len(b) == 0:
			return nil, fault.New(fault.RewardEmpty, "%s is empty", f.name)
		}
		rewards, err := f.parse(b)
		return rewards, fault.Wrap(fault.RewardBad, err, "%s", f.name)
	}
	return nil, fault.New(fault.RewardMissing, "the tests wrote neither reward.json nor reward.txt")
}

// mainReward is the one under the key reward, or the only one.
func mainReward(rewards map[string]float64) (float64, error) {
	if v, ok := rewards["reward"]; ok {
		return v, nil
	}
	if len(rewards) == 1 {
		for _, v := range rewards {
			return v, nil
		}
	}
	return 0, fault.New(fault.RewardBad, "of %d rewards none is called reward", len(rewards))
}

// parseRewardJSON reads one flat object of numbers; true is 1, false is 0. A later key replaces an equal earlier one.
func parseRewardJSON(b []byte) (map[string]float64, error) {
	if !utf8.Valid(b) {
		return nil, fault.New(fault.RewardBad, "it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var raw map[string]any
	if err := d.Decode(&raw); err != nil {
		return nil, fault.New(fault.RewardBad, "it is no JSON object of finite numbers: %v", err)
	}
	if raw == nil {
		return nil, fault.New(fault.RewardBad, "it is null, not a JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.RewardBad, "something follows the JSON object")
	}
	out := make(map[string]float64, len(raw))
	for k, v := range raw {
		switch v := v.(type) {
		case json.Number:
			f, err := strconv.ParseFloat(v.String(), 64)
			if err != nil && math.IsInf(f, 0) || math.IsInf(f, 0) {
				return nil, fault.New(fault.RewardBad, "%q is not finite", k)
			}
			out[k] = f
		case bool:
			out[k] = 0
			if v {
				out[k] = 1
			}
		default:
			return nil, fault.New(fault.RewardBad, "%q is no number", k)
		}
	}
	return out, nil
}

func parseRewardText(b []byte) (map[string]float64, error) {
	f, err := pythonFloat(b)
	if err != nil {
		return nil, err
	}
	return map[string]float64{"reward": f}, nil
}

var decimal = regexp.MustCompile(`^[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)([eE][+-]?\d+(_\d+)*)?$`)

// pythonFloat reads what Python's float(str) reads, save for what is not finite.
func pythonFloat(b []byte) (float64, error) {
	if !utf8.Valid(b) {
		return 0, fault.New(fault.RewardBad, "it is not UTF-8")
	}
	s := strings.Map(asciiDigit, strings.TrimFunc(string(b), pythonSpace))
	if !decimal.MatchString(s) {
		switch strings.ToLower(strings.TrimLeft(s, "+-")) {
		case "nan", "inf", "infinity":
			return 0, fault.New(fault.RewardBad, "%s is not finite", s)
		}
		return 0, fault.New(fault.RewardBad, "%q is no number", short(s))
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if math.IsInf(f, 0) {
		return 0, fault.New(fault.RewardBad, "%s is not finite", short(s))
	}
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fault.New(fault.RewardBad, "%q is no number", short(s))
	}
	return f, nil
}

func short(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}

// pythonSpace is str.isspace.
func pythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// asciiDigit maps every decimal digit of Unicode to its ASCII one: their blocks are runs of ten.
func asciiDigit(r rune) rune {
	if r < utf8.RuneSelf || !unicode.Is(unicode.Nd, r) {
		return r
	}
	for _, t := range unicode.Nd.R16 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	return r
}
