// Package arch holds the rules of the house: which package may import which, what a pure package may not touch, how long
// a file may be. Its test walks the repository and parses the files itself, so that a cached pass is never stale.
package arch

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
)

// Module is the import path that the repository's packages begin with.
const Module = "github.com/tito-rl/tito/"

// impure lists what a pure package may not import, and why. A path ending in "/" stands for everything below it.
var impure = map[string]string{
	"os": "does I/O", "os/": "does I/O", "net": "does I/O", "net/": "does I/O", "syscall": "does I/O", "io/ioutil": "does I/O",
	"time": "knows the clock", "math/rand": "knows randomness", "math/rand/": "knows randomness", "crypto/rand": "knows randomness",
	"context": "belongs to goroutines", "log": "does I/O", "log/": "does I/O", "runtime": "knows the process",
}

// allowed third-party imports of pure packages, each with its reason.
var allowed = map[string]string{
	"golang.org/x/text/cases":            "title, upper and lower case as Python has them",
	"golang.org/x/text/language":         "names the case rules of cases",
	"golang.org/x/text/unicode/norm":     "NFC, whose tables are pinned by the caller",
	"github.com/dlclark/regexp2/v2":      "pre-tokenizer patterns with look-ahead",
	"github.com/klauspost/compress/zstd": "the artifact's frames, used without goroutines",
	"github.com/zeebo/xxh3":              "hashing",
}

// Budget is how long files and functions may be: a habit with a wall behind it.
const (
	MaxFileLines = 800
	MaxFuncLines = 120
)

// Rule is one line of floors.txt.
type Rule struct {
	Pattern string
	Floor   int
	Pure    bool
	used    bool
}

// ParseRules reads floors.txt.
func ParseRules(text string) ([]*Rule, error) {
	var rules []*Rule
	sc := bufio.NewScanner(strings.NewReader(text))
	for line := 1; sc.Scan(); line++ {
		f := strings.Fields(sc.Text())
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) < 2 {
			return nil, fmt.Errorf("floors.txt:%d: want a path and a floor", line)
		}
		floor, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("floors.txt:%d: floor %q is not a number", line, f[1])
		}
		rules = append(rules, &Rule{Pattern: f[0], Floor: floor, Pure: len(f) > 2 && f[2] == "pure"})
	}
	return rules, nil
}

func match(rules []*Rule, pkg string) *Rule {
	for _, r := range rules {
		if ok, _ := path.Match(r.Pattern, pkg); ok {
			r.used = true
			return r
		}
	}
	return nil
}

// Check walks the Go files below fsys and returns every breach, sorted. files is how many it read.
func Check(fsys fs.FS, rules []*Rule) (breaches []string, files int, err error) {
	docs := map[string]bool{}
	fset := token.NewFileSet()
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "testdata" || n == "vendor" || strings.HasPrefix(n, ".") && n != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		src, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, p, src, parser.ParseComments)
		if err != nil {
			return err
		}
		files++
		breaches = append(breaches, checkFile(fset, p, f, src, rules, docs)...)
		return nil
	})
	if err != nil {
		return nil, files, err
	}
	for pkg, has := range docs {
		if !has {
			breaches = append(breaches, pkg+": no package comment")
		}
	}
	for _, r := range rules {
		if !r.used {
			breaches = append(breaches, "floors.txt: "+r.Pattern+" matches no package")
		}
	}
	sort.Strings(breaches)
	return breaches, files, nil
}

func checkFile(fset *token.FileSet, p string, f *ast.File, src []byte, rules []*Rule, docs map[string]bool) (out []string) {
	pkg := path.Dir(p)
	test := strings.HasSuffix(p, "_test.go")
	if test {
		return checkTest(fset, p, f)
	}
	if pkg == "internal/testkit" || pkg == "internal/arch" {
		return nil
	}
	docs[pkg] = docs[pkg] || f.Doc != nil
	rule := match(rules, pkg)
	if rule == nil {
		return []string{pkg + ": stands on no floor; add it to floors.txt"}
	}
	for _, im := range f.Imports {
		ip, _ := strconv.Unquote(im.Path.Value)
		if why := checkImport(rules, pkg, rule, ip); why != "" {
			out = append(out, fmt.Sprintf("%s: imports %s: %s", p, ip, why))
		}
	}
	if rule.Pure {
		ast.Inspect(f, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				out = append(out, fmt.Sprintf("%s: a pure package starts a goroutine", fset.Position(g.Pos())))
			}
			return true
		})
	}
	return append(out, checkSize(fset, p, f, src)...)
}

func checkImport(rules []*Rule, pkg string, rule *Rule, ip string) string {
	if dep, ok := strings.CutPrefix(ip, Module); ok {
		if dep == "internal/testkit" || dep == "internal/arch" {
			return "belongs to tests"
		}
		r := match(rules, dep)
		switch {
		case r == nil:
			return "stands on no floor"
		case r.Floor > rule.Floor:
			return fmt.Sprintf("points up, from floor %d to %d", rule.Floor, r.Floor)
		case r.Floor == rule.Floor && dep != path.Dir(pkg) && !(path.Base(pkg) == "all" && path.Dir(dep) == path.Dir(pkg)):
			return fmt.Sprintf("stands on the same floor, %d", r.Floor)
		case rule.Pure && !r.Pure:
			return "is not pure"
		}
		return ""
	}
	if !rule.Pure {
		return ""
	}
	for bad, why := range impure {
		if ip == bad || strings.HasSuffix(bad, "/") && strings.HasPrefix(ip, bad) {
			return "a pure package may not: it " + why
		}
	}
	if strings.Contains(strings.Split(ip, "/")[0], ".") && allowed[ip] == "" {
		return "a pure package takes no third-party module without a reason"
	}
	return ""
}

func checkTest(fset *token.FileSet, p string, f *ast.File) (out []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && s.Sel.Name == "Sleep" {
				out = append(out, fmt.Sprintf("%s: a test sleeps; wait for what it waits for", fset.Position(s.Pos())))
			}
		}
		return true
	})
	return out
}

func checkSize(fset *token.FileSet, p string, f *ast.File, src []byte) (out []string) {
	if ast.IsGenerated(f) {
		return nil
	}
	if n := strings.Count(string(src), "\n"); n > MaxFileLines {
		out = append(out, fmt.Sprintf("%s: %d lines, more than %d", p, n, MaxFileLines))
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
		if n > MaxFuncLines {
			out = append(out, fmt.Sprintf("%s: func %s has %d lines, more than %d", p, fn.Name.Name, n, MaxFuncLines))
		}
	}
	return out
}
