// Package task reads tasks in Harbor's format: task.toml, instruction.md, environment/, tests/ and solution/.
//
// Everything of the format is parsed; what a sandbox or this version cannot do is named as a [Need], so that a trial can
// refuse it before it starts. A loaded Task is immutable and safe for concurrent use. The package does not know sandboxes
// in use, agents or rewards.
package task

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tito-rl/tito/internal/fault"
)

// Task is a task as its folder describes it.
type Task struct {
	Dir         string // absolute host path
	Name        string // [task].name, else the folder's name
	Config      Config
	Instruction string // without its canary lines; empty for a task in steps
	Build       Build  // of environment/Dockerfile; zero where there is none
	TaskRoot    bool   // spells its paths with $TITO_TASK_ROOT (tests/test.sh does)
	Warnings    []string

	needs []Need
}

// Need is something that a task asks for and that not every sandbox or version can do.
type Need struct {
	What string // the key or instruction, by name
	File string // in the task's folder
	Line int    // 0 = unknown
}

// Load reads the task in dir. Errors: fault.FileMissing where dir is none, fault.BadTask with file, line and key where
// the format is broken, fault.VerifierMissing where nothing can score it.
func Load(dir string) (*Task, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fault.Wrap(fault.FileMissing, err, "task %s", dir)
	}
	fi, err := os.Stat(abs)
	if err != nil || !fi.IsDir() {
		return nil, fault.New(fault.FileMissing, "%s is no task folder", dir)
	}
	t := &Task{Dir: abs, Name: filepath.Base(abs)}
	if err := t.readConfig(); err != nil {
		return nil, err
	}
	if t.Config.Task.Name != "" {
		t.Name = t.Config.Task.Name
	}
	if err := t.readInstruction(); err != nil {
		return nil, err
	}
	if err := t.readTests(); err != nil {
		return nil, err
	}
	if err := t.readEnvironment(); err != nil {
		return nil, err
	}
	return t, nil
}

// Short is the last part of the name, as Harbor begins the names of trials with it.
func (t *Task) Short() string {
	s := t.Name[strings.LastIndex(t.Name, "/")+1:]
	if len(s) > 32 {
		s = s[:32]
	}
	return strings.TrimRight(s, "_-")
}

// Workdir is where agent and verifier begin: [environment].workdir, else the Dockerfile's WORKDIR, else /.
func (t *Task) Workdir() string {
	switch {
	case t.Config.Environment.Workdir != "":
		return t.Config.Environment.Workdir
	case t.Build.Workdir != "":
		return t.Build.Workdir
	}
	return "/"
}

// Tests is the host folder with test.sh.
func (t *Task) Tests() string { return filepath.Join(t.Dir, "tests") }

// Solution is the host folder of the solution, "" where there is none.
func (t *Task) Solution() string {
	p := filepath.Join(t.Dir, "solution")
	if fi, err := os.Stat(p); err != nil || !fi.IsDir() {
		return ""
	}
	return p
}

// Needs lists what the task asks for beyond commands and files in one public sandbox, run as root.
func (t *Task) Needs() []Need { return t.needs }

// Refuse is a fault.UnsupportedTask that names every need, or nil where there is none.
func (t *Task) Refuse() error {
	if len(t.needs) == 0 {
		return nil
	}
	var all []string
	for _, n := range t.needs {
		all = append(all, at(n.File, n.Line)+": "+n.What)
	}
	return fault.New(fault.UnsupportedTask, "task %s needs what cannot be done here: %s", t.Name, strings.Join(all, "; "))
}

func (t *Task) need(file string, line int, what string) {
	t.needs = append(t.needs, Need{What: what, File: file, Line: line})
}

var canary = regexp.MustCompile(`(?i)^(<!--.*canary.*-->|#.*canary.*)$`)

func (t *Task) readInstruction() error {
	if len(t.Config.Steps) > 0 {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(t.Dir, "instruction.md"))
	if err != nil {
		return fault.New(fault.BadTask, "task %s: instruction.md cannot be read: %v", t.Name, err)
	}
	t.Instruction = stripCanary(string(b))
	if strings.TrimSpace(t.Instruction) == "" {
		return fault.New(fault.BadTask, "task %s: instruction.md is empty", t.Name)
	}
	return nil
}

// stripCanary drops the leading canary lines, and then the leading blank lines.
func stripCanary(s string) string {
	next := func() (line, rest string) {
		line, rest, _ = strings.Cut(s, "\n")
		return strings.TrimSpace(line), rest
	}
	for s != "" {
		line, rest := next()
		if !canary.MatchString(line) {
			break
		}
		s = rest
	}
	for s != "" {
		line, rest := next()
		if line != "" {
			break
		}
		s = rest
	}
	return s
}

func (t *Task) readTests() error {
	if len(t.Config.Steps) > 0 {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(t.Tests(), "test.sh"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && t.Config.Environment.OS == "windows":
		return nil // refused by its need
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.VerifierMissing, "task %s has no tests/test.sh to score it", t.Name)
	case err != nil:
		return fault.New(fault.BadTask, "task %s: tests/test.sh cannot be read: %v", t.Name, err)
	}
	t.TaskRoot = strings.Contains(string(b), "TITO_TASK_ROOT")
	return nil
}

func (t *Task) readEnvironment() error {
	dir := filepath.Join(t.Dir, "environment")
	has := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	for _, n := range []string{"docker-compose.yaml", "docker-compose.yml"} {
		if has(n) {
			t.need("environment/"+n, 0, "a compose project")
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && t.Config.Environment.DockerImage != "":
		t.need("task.toml", t.Config.line("environment", "docker_image"), "docker_image without a Dockerfile: a prebuilt image")
		return nil
	case errors.Is(err, fs.ErrNotExist) && len(t.needs) > 0 && (has("docker-compose.yaml") || has("docker-compose.yml")):
		return nil
	case err != nil:
		return fault.New(fault.BadTask, "task %s: environment/Dockerfile cannot be read: %v", t.Name, err).
			WithFix("add one, if only with FROM and WORKDIR, or set [environment].docker_image")
	}
	build, err := parseDockerfile(dir, string(b))
	if err != nil {
		return fault.Wrap(fault.BadTask, err, "task %s", t.Name)
	}
	if has(".dockerignore") && len(build.Copies) > 0 {
		build.Needs = append(build.Needs, Need{What: ".dockerignore with COPY", File: "environment/.dockerignore"})
	}
	t.Build = build
	t.needs = append(t.needs, build.Needs...)
	return nil
}

var template = regexp.MustCompile(`^\$\{([^}:]+)(?::-(.*))?\}$`)

// Resolve fills env values that are wholly ${VAR} or ${VAR:-default} from vars. A variable that is neither set nor has a
// default is a fault.BadTask. env is not changed.
func Resolve(env, vars map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(env))
	for k, v := range env {
		m := template.FindStringSubmatchIndex(v)
		if m == nil {
			out[k] = v
			continue
		}
		name := v[m[2]:m[3]]
		set, ok := vars[name]
		switch {
		case ok:
			out[k] = set
		case m[4] >= 0:
			out[k] = v[m[4]:m[5]]
		default:
			return nil, fault.New(fault.BadTask, "the task's variable %s is %s, and %s is not set", k, v, name).
				WithFix("set %s in the environment", name)
		}
	}
	return out, nil
}
