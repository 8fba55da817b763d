package task

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
)

// Build is what a Dockerfile asks for. FROM and the like are noted; what cannot be done without an image is a need.
type Build struct {
	Image   string // of FROM
	Workdir string
	Dirs    []string // made by WORKDIR, in order
	Env     map[string]string
	Copies  []Copy
	Notes   []string // instructions read and not acted on, by name and line
	Needs   []Need   // such as RUN
}

// Copy is one file, or the content of one folder, that COPY or ADD puts into the image.
type Copy struct {
	Src  string // absolute host path, inside environment/
	Dst  string // absolute: of the file, or of the folder that receives the content
	Mode string // of --chmod, "" = the source's own
	Line int
}

const dockerfile = "environment/Dockerfile"

type dockerParser struct {
	ctx   string // the build context: environment/
	build Build
	vars  map[string]string // ARG and ENV so far, and what is known of the base image
	args  map[string]bool
	froms int
}

// parseDockerfile reads a Dockerfile whose build context is the folder ctx.
func parseDockerfile(ctx, src string) (Build, error) {
	p := &dockerParser{ctx: ctx, vars: map[string]string{"PATH": sandbox.DefaultPath}, args: map[string]bool{}}
	p.build.Env = map[string]string{}
	lines := strings.Split(strings.ReplaceAll(src, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); {
		text, n, next := joinLines(lines, i)
		i = next
		if text == "" {
			continue
		}
		word, rest, _ := strings.Cut(text, " ")
		if err := p.instruction(strings.ToUpper(word), strings.TrimSpace(rest), n); err != nil {
			return Build{}, err
		}
		i = skipHeredoc(lines, i, text)
	}
	if p.froms == 0 {
		return Build{}, bad(1, "there is no FROM")
	}
	return p.build, nil
}

// joinLines joins one instruction's lines; comment and blank lines between them are dropped. n counts from 1.
func joinLines(lines []string, i int) (text string, n, next int) {
	n = i + 1
	var b strings.Builder
	for ; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || line[0] == '#' {
			if b.Len() == 0 {
				n = i + 2
			}
			continue
		}
		more := strings.HasSuffix(line, `\`)
		b.WriteString(strings.ReplaceAll(strings.TrimSuffix(line, `\`), "\t", " "))
		if !more {
			return strings.TrimSpace(b.String()), n, i + 1
		}
	}
	return strings.TrimSpace(b.String()), n, i
}

var heredoc = regexp.MustCompile(`<<(-?)["']?([A-Za-z_][A-Za-z0-9_]*)["']?`)

// skipHeredoc passes over the bodies of the here-documents that an instruction opens.
func skipHeredoc(lines []string, i int, text string) int {
	word, _, _ := strings.Cut(text, " ")
	switch strings.ToUpper(word) {
	case "RUN", "COPY", "ADD":
	default:
		return i
	}
	for _, m := range heredoc.FindAllStringSubmatch(text, -1) {
		for i < len(lines) {
			line := lines[i]
			if m[1] == "-" {
				line = strings.TrimLeft(line, "\t")
			}
			i++
			if line == m[2] {
				break
			}
		}
	}
	return i
}

func bad(line int, format string, args ...any) error {
	return fault.New(fault.BadTask, "%s: %s", at(dockerfile, line), fmt.Sprintf(format, args...))
}

func (p *dockerParser) need(line int, what string) {
	p.build.Needs = append(p.build.Needs, Need{What: what, File: dockerfile, Line: line})
}

func (p *dockerParser) note(line int, what string) {
	p.build.Notes = append(p.build.Notes, fmt.Sprintf("%s: %s", at(dockerfile, line), what))
}

func short(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

func (p *dockerParser) instruction(word, rest string, line int) error {
	if p.froms == 0 && word != "FROM" && word != "ARG" {
		return bad(line, "%s comes before FROM", word)
	}
	switch word {
	case "FROM":
		return p.from(rest, line)
	case "ARG":
		return p.arg(rest, line)
	case "ENV":
		return p.env(rest, line)
	case "WORKDIR":
		d := p.expand(unquote(rest))
		if d == "" {
			return bad(line, "WORKDIR without a folder")
		}
		if !path.IsAbs(d) {
			d = path.Join("/", p.build.Workdir, d)
		}
		p.build.Workdir = path.Clean(d)
		p.build.Dirs = append(p.build.Dirs, p.build.Workdir)
	case "COPY", "ADD":
		return p.copy(word, rest, line)
	case "RUN":
		p.need(line, "RUN "+short(rest))
	case "USER", "CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "VOLUME", "STOPSIGNAL", "SHELL", "MAINTAINER", "HEALTHCHECK", "ONBUILD":
		p.note(line, word+" "+short(rest)+" has no effect")
	default:
		return bad(line, "unknown instruction %s", short(word))
	}
	return nil
}

func (p *dockerParser) from(rest string, line int) error {
	p.froms++
	f := strings.Fields(rest)
	for len(f) > 0 && strings.HasPrefix(f[0], "--") {
		f = f[1:]
	}
	if len(f) == 0 {
		return bad(line, "FROM without an image")
	}
	if p.froms > 1 {
		p.need(line, "a build of several stages: FROM "+short(rest))
	}
	p.build.Image = p.expand(f[0])
	p.note(line, "FROM "+p.build.Image+": the host's own programs are used")
	return nil
}

func (p *dockerParser) arg(rest string, line int) error {
	words, err := split(rest)
	if err != nil {
		return bad(line, "ARG: %v", err)
	}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		p.args[k] = true
		if _, isEnv := p.build.Env[k]; !isEnv {
			p.vars[k] = p.expand(v)
		}
	}
	return nil
}

func (p *dockerParser) env(rest string, line int) error {
	first, value, _ := strings.Cut(rest, " ")
	if !strings.Contains(first, "=") { // ENV KEY some value
		if first == "" || value == "" {
			return bad(line, "ENV needs a name and a value")
		}
		p.setEnv(map[string]string{first: p.expand(strings.TrimSpace(value))})
		return nil
	}
	words, err := split(rest)
	if err != nil {
		return bad(line, "ENV: %v", err)
	}
	set := map[string]string{}
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			return bad(line, "ENV: %q is no NAME=value", w)
		}
		set[k] = p.expand(v) // with the values from before this instruction
	}
	p.setEnv(set)
	return nil
}

func (p *dockerParser) setEnv(set map[string]string) {
	maps.Copy(p.build.Env, set)
	maps.Copy(p.vars, set)
}

func (p *dockerParser) copy(word, rest string, line int) error {
	mode := ""
	for strings.HasPrefix(rest, "--") {
		flag, more, _ := strings.Cut(rest, " ")
		rest = strings.TrimSpace(more)
		name, v, _ := strings.Cut(flag, "=")
		switch name {
		case "--chmod":
			if _, err := strconv.ParseUint(v, 8, 12); err != nil {
				p.need(line, word+" "+flag)
				return nil
			}
			mode = v
		case "--chown":
			p.note(line, word+" "+flag+": files belong to root")
		case "--link":
		default: // --from, --exclude, --parents, --checksum, --keep-git-dir
			p.need(line, word+" "+short(flag))
			return nil
		}
	}
	if heredoc.MatchString(rest) {
		p.need(line, word+" of a here-document")
		return nil
	}
	words, err := copyWords(rest)
	if err != nil {
		return bad(line, "%s: %v", word, err)
	}
	if len(words) < 2 {
		return bad(line, "%s needs a source and a destination", word)
	}
	for i := range words {
		words[i] = p.expand(words[i])
	}
	dst := words[len(words)-1]
	asDir := strings.HasSuffix(dst, "/") || dst == "." || dst == ".." || len(words) > 2
	if !path.IsAbs(dst) {
		dst = path.Join("/", p.build.Workdir, dst)
	}
	for _, src := range words[:len(words)-1] {
		if err := p.source(word, src, path.Clean(dst), mode, asDir, line); err != nil {
			return err
		}
	}
	return nil
}

func (p *dockerParser) source(word, src, dst, mode string, asDir bool, line int) error {
	if word == "ADD" && (strings.Contains(src, "://") || strings.HasPrefix(src, "git@")) {
		p.need(line, "ADD "+short(src)+": a download")
		return nil
	}
	pattern := filepath.Join(p.ctx, filepath.FromSlash(path.Clean("/"+src))) // never above the context
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return bad(line, "%s %s: %v", word, src, err)
	}
	if len(matches) == 0 {
		return bad(line, "%s %s: no such file in environment/", word, src)
	}
	for _, m := range matches {
		fi, err := p.inside(m)
		if err != nil {
			return bad(line, "%s %s: %v", word, src, err)
		}
		to := dst
		switch {
		case fi.IsDir():
		case word == "ADD" && isArchive(m):
			p.need(line, "ADD "+short(src)+": unpacking an archive")
			return nil
		case asDir || len(matches) > 1:
			to = path.Join(dst, filepath.Base(m))
		}
		p.build.Copies = append(p.build.Copies, Copy{Src: m, Dst: to, Mode: mode, Line: line})
	}
	return nil
}

// inside refuses a source whose links lead out of the build context.
func (p *dockerParser) inside(m string) (fs.FileInfo, error) {
	real, err := filepath.EvalSymlinks(m)
	if err != nil {
		return nil, err
	}
	ctx, err := filepath.EvalSymlinks(p.ctx)
	if err != nil {
		return nil, err
	}
	if real != ctx && !strings.HasPrefix(real, ctx+string(filepath.Separator)) {
		return nil, fmt.Errorf("it leads out of environment/")
	}
	return os.Stat(real)
}

var archive = regexp.MustCompile(`\.(tar|tar\.(gz|bz2|xz|zst)|tgz|tbz2?|txz)$`)

func isArchive(name string) bool { return archive.MatchString(name) }

// copyWords reads the words of COPY, plain or as a JSON array.
func copyWords(rest string) ([]string, error) {
	if !strings.HasPrefix(rest, "[") {
		return split(rest)
	}
	inner, ok := strings.CutSuffix(strings.TrimPrefix(rest, "["), "]")
	if !ok {
		return nil, fmt.Errorf("the array does not end")
	}
	var words []string
	for part := range strings.SplitSeq(inner, ",") {
		w, err := strconv.Unquote(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%s is no string", part)
		}
		words = append(words, w)
	}
	return words, nil
}

// split cuts at blanks outside quotes. Double quotes and bare words keep their $; single quotes hide it.
func split(s string) ([]string, error) {
	var words []string
	var w strings.Builder
	in, quote := false, rune(0)
	rs := []rune(s)
	for i := 0; i < len(rs); i++ {
		r := rs[i]
		switch {
		case r == '\\' && quote != '\'' && i+1 < len(rs):
			i++
			if rs[i] == '$' {
				w.WriteRune('\\')
			}
			w.WriteRune(rs[i])
			in = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, in = r, true
		case quote == '\'' && r == '$':
			w.WriteString(`\$`)
		case quote == 0 && r == ' ':
			if in {
				words = append(words, w.String())
				w.Reset()
				in = false
			}
		default:
			w.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote does not end")
	}
	if in {
		words = append(words, w.String())
	}
	return words, nil
}

func unquote(s string) string {
	if w, err := split(s); err == nil && len(w) == 1 {
		return w[0]
	}
	return s
}

var variable = regexp.MustCompile(`\\\$|\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+])([^}]*))?\})`)

// expand fills $NAME, ${NAME}, ${NAME:-word} and ${NAME:+word}; \$ is a plain $. An unknown name is empty.
func (p *dockerParser) expand(s string) string {
	return variable.ReplaceAllStringFunc(s, func(m string) string {
		if m == `\$` {
			return "$"
		}
		g := variable.FindStringSubmatch(m)
		v, set := p.vars[g[1]+g[2]]
		if strings.HasPrefix(g[3], ":") {
			set = set && v != ""
		}
		switch strings.TrimPrefix(g[3], ":") {
		case "-":
			if !set {
				return g[4]
			}
		case "+":
			if set {
				return g[4]
			}
			return ""
		}
		return v
	})
}
