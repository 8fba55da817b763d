package template

// Coverage is which outcomes of a template's if and elif tags renders have reached; inline ifs are not among them. The zero
// value is empty. It is not safe for concurrent use.
type Coverage struct{ seen map[*ifStmt][2]bool }

// Outcome is one outcome of an if or elif tag.
type Outcome struct {
	Line  int  `json:"line"`
	Holds bool `json:"holds"`
}

// Observed is t that tells c what its renders reach. It is no longer safe for concurrent use.
func (t *Template) Observed(c *Coverage) *Template {
	o := *t
	o.cover = c
	return &o
}

// Outcomes lists all outcomes of t's tags, in their order, and those that c has not seen.
func (t *Template) Outcomes(c *Coverage) (all int, missed []Outcome) {
	ifs(t.body, func(s *ifStmt) {
		all += 2
		for i, holds := range []bool{true, false} {
			if !c.seen[s][i] {
				missed = append(missed, Outcome{s.line, holds})
			}
		}
	})
	return all, missed
}

func (c *Coverage) mark(s *ifStmt, holds bool) {
	if c.seen == nil {
		c.seen = map[*ifStmt][2]bool{}
	}
	had := c.seen[s]
	if holds {
		had[0] = true
	} else {
		had[1] = true
	}
	c.seen[s] = had
}

// ifs calls do for each if tag in body.
func ifs(body []stmt, do func(*ifStmt)) {
	for _, s := range body {
		switch s := s.(type) {
		case *ifStmt:
			do(s)
			ifs(s.body, do)
			ifs(s.orElse, do)
		case *forStmt:
			ifs(s.body, do)
			ifs(s.orElse, do)
		case *setBlock:
			ifs(s.body, do)
		case *withStmt:
			ifs(s.body, do)
		case *macroStmt:
			ifs(s.def.body, do)
		case *callStmt:
			ifs(s.def.body, do)
		case *generationStmt:
			ifs(s.def.body, do)
		case *filterStmt:
			ifs(s.body, do)
		case *scopeStmt:
			ifs(s.body, do)
		case *blockStmt:
			ifs(s.body, do)
		}
	}
}
