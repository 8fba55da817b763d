package template

// expr is an expression; eval computes it in a frame. Failures travel as panics of type *refusal up to Render.
type expr interface {
	eval(r *run, f *frame) value
}

// stmt is a statement.
type stmt interface {
	exec(r *run, f *frame) control
}

// control says how a statement ended.
type control uint8

const (
	next control = iota
	breakLoop
	continueLoop
)

type (
	constExpr struct{ v value }
	// nameExpr is a variable: slot of the frame that is up function levels above. Scopes set both.
	nameExpr struct {
		name     string
		up, slot int
		line     int
	}
	seqExpr struct {
		items []expr
		tuple bool
		line  int
	}
	dictExpr  struct{ keys, vals []expr }
	condExpr  struct{ test, yes, no expr }
	logicExpr struct {
		a, b expr
		and  bool
	}
	notExpr struct{ e expr }
	cmpExpr struct {
		first expr
		ops   []cmpOp
	}
	cmpOp struct {
		op string
		e  expr
	}
	// addExpr is a + b + c, left to right.
	addExpr struct{ terms []expr }
	binExpr struct {
		op   string
		a, b expr
	}
	concatExpr struct{ parts []expr }
	signExpr   struct {
		minus bool
		e     expr
	}
	attrExpr struct {
		e     expr
		name  string
		plain bool // no dict has an attribute of that name: on a dict it can only be a key
	}
	itemExpr  struct{ e, key expr }
	sliceExpr struct{ e, lo, hi, step expr }
	callExpr  struct {
		fn   expr
		args callArgs
		line int
	}
	filterExpr struct {
		e    expr // nil inside a filter block: the captured text
		name string
		fn   filterFunc // nil where no such filter exists: refused when reached
		args callArgs
		line int
	}
	testExpr struct {
		e    expr
		name string
		fn   testFunc
		args callArgs
		line int
	}
	// nsTarget is ns.attr on the left of a set.
	nsTarget struct {
		name *nameExpr
		attr string
	}
)

type callArgs struct {
	pos         []expr
	kw          []kwExpr
	star, dstar expr
}

type kwExpr struct {
	name string
	e    expr
}

type (
	// dataStmt is text between tags.
	dataStmt struct{ text string }
	// outStmt prints.
	outStmt struct {
		e    expr
		line int
	}
	setStmt struct {
		target, e expr
		export    bool
		line      int
	}
	setBlock struct {
		target expr
		filter expr
		body   []stmt
		scope  *scope
		export bool
		line   int
	}
	forStmt struct {
		target, iter, test expr
		testTarget         expr // target again, in the scope of test
		body, orElse       []stmt
		recursive          bool
		loopSlot           int // -1 where the body never says loop
		scope, testScope   *scope
		elseScope          *scope
		fn                 *funcInfo // of a recursive loop
		line               int
	}
	ifStmt struct {
		test         expr
		body, orElse []stmt
		line         int
	}
	withStmt struct {
		targets, vals []expr
		body          []stmt
		scope         *scope
	}
	macroStmt struct {
		def    *macroDef
		target *nameExpr
		export bool
	}
	callStmt struct {
		call *callExpr
		def  *macroDef
		line int
	}
	generationStmt struct {
		def  *macroDef
		line int
	}
	filterStmt struct {
		filter expr
		body   []stmt
		scope  *scope
		line   int
	}
	scopeStmt struct {
		body  []stmt
		scope *scope
	}
	blockStmt struct {
		name string
		body []stmt
		fn   *funcInfo
		line int
	}
	loopControl struct {
		c    control
		line int
	}
	// refuseStmt is a statement that Python refuses when it gets there: templates here have no loader.
	refuseStmt struct {
		msg  string
		e    expr
		line int
	}
)

// macroDef is a macro, or the body of a call or generation block.
type macroDef struct {
	name                  string
	params                []*nameExpr
	defaults              []expr // of the last params
	body                  []stmt
	fn                    *funcInfo
	caller, kwargs, vargs int // slots, -1 where the body does not ask for them
	explicitCaller        bool
	line                  int
}

// funcInfo is what a frame is made for: the template, a macro, a block, a recursive loop.
type funcInfo struct {
	slots int
	scope *scope
}
