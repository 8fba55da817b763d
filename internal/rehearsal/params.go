package rehearsal

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/fault"
)

// Params are the policy's parameters at one version: one logit a reply. They are values: no method changes them.
type Params struct {
	Version string
	Names   []string // scene/step/reply, or default/reply; shared, not to be changed
	Theta   []float64
}

// Initial gives the parameters that the book sets, under a version of the caller's.
func (p *Policy) Initial(version string) Params {
	return Params{Version: version, Names: p.names, Theta: slices.Clone(p.initial)}
}

// Ascend takes one step up a gradient and names the result: θ + rate·grad.
func (p Params) Ascend(version string, rate float64, grad []float64) (Params, error) {
	if len(grad) != len(p.Theta) {
		return Params{}, fault.New(fault.TrainerFailed, "the gradient has %d entries for %d parameters", len(grad), len(p.Theta))
	}
	theta := slices.Clone(p.Theta)
	for i, g := range grad {
		theta[i] += rate * g
		if math.IsNaN(theta[i]) || math.IsInf(theta[i], 0) {
			return Params{}, fault.New(fault.TrainerFailed, "parameter %s would become %v", p.Names[i], theta[i])
		}
	}
	return Params{Version: version, Names: p.Names, Theta: theta}, nil
}

// With gives the same parameters under another version, some of them set by name.
func (p Params) With(version string, set map[string]float64) (Params, error) {
	theta := slices.Clone(p.Theta)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		i := slices.Index(p.Names, name)
		if i < 0 {
			return Params{}, fault.New(fault.BadConfig, "the rehearsal policy has no parameter %q", name)
		}
		theta[i] = set[name]
	}
	return Params{Version: version, Names: p.Names, Theta: theta}, nil
}

const paramsMagic = "tito-rehearsal-params/1"

// Encode writes the parameters as text, one a line. Equal parameters give equal bytes, and every value survives exactly.
func (p Params) Encode() []byte {
	b := []byte(paramsMagic + "\nversion ")
	b = strconv.AppendQuote(b, p.Version)
	b = fmt.Appendf(b, "\nparameters %d\n", len(p.Theta))
	for i, t := range p.Theta {
		b = strconv.AppendFloat(b, t, 'g', -1, 64)
		b = append(b, ' ')
		b = strconv.AppendQuote(b, p.Names[i])
		b = append(b, '\n')
	}
	return b
}

// ParseParams reads what Encode wrote. Anything else is a [fault.CheckpointBad] that names the line.
func ParseParams(b []byte) (Params, error) {
	bad := func(line int, what string) (Params, error) {
		return Params{}, fault.New(fault.CheckpointBad, "rehearsal parameters, line %d: %s", line, what)
	}
	lines := strings.Split(string(b), "\n")
	if lines[0] != paramsMagic {
		return bad(1, "is not "+paramsMagic)
	}
	if len(lines) < 4 || lines[len(lines)-1] != "" {
		return bad(len(lines), "the file is cut")
	}
	version, err := strconv.Unquote(strings.TrimPrefix(lines[1], "version "))
	if err != nil {
		return bad(2, "must be the version")
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(lines[2], "parameters ")); err != nil || n != len(lines)-4 {
		return bad(3, "the number of parameters is not that of the lines that follow")
	}
	p := Params{Version: version}
	for i, line := range lines[3 : len(lines)-1] {
		value, quoted, _ := strings.Cut(line, " ")
		t, err1 := strconv.ParseFloat(value, 64)
		name, err2 := strconv.Unquote(quoted)
		if err1 != nil || err2 != nil || math.IsNaN(t) || math.IsInf(t, 0) {
			return bad(i+4, "must be a number and a quoted name")
		}
		p.Theta, p.Names = append(p.Theta, t), append(p.Names, name)
	}
	if string(p.Encode()) != string(b) {
		return bad(1, "the file is not as it was written")
	}
	return p, nil
}
