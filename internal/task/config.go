package task

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/tito-rl/tito/internal/fault"
)

// Config is task.toml of schema 1.0 to 1.4, with its old spellings folded into the new ones.
type Config struct {
	SchemaVersion string         `toml:"schema_version"`
	Version       string         `toml:"version"` // schema_version's old name
	Source        string         `toml:"source"`
	RewardOf      string         `toml:"multi_step_reward_strategy"`
	RawArtifacts  []any          `toml:"artifacts"`
	Artifacts     []Artifact     `toml:"-"`
	Task          Head           `toml:"task"`
	Metadata      map[string]any `toml:"metadata"`
	Agent         Agent          `toml:"agent"`
	Verifier      Verifier       `toml:"verifier"`
	Solution      Solution       `toml:"solution"`
	Environment   Environment    `toml:"environment"`
	Steps         []Step         `toml:"steps"`

	lines map[string]int
}

// Head is [task].
type Head struct {
	Name        string   `toml:"name"`
	Version     string   `toml:"version"`
	Description string   `toml:"description"`
	Authors     []Author `toml:"authors"`
	Keywords    []string `toml:"keywords"`
}

// Author is one of [task].authors.
type Author struct {
	Name  string `toml:"name"`
	Email string `toml:"email"`
}

// Agent is [agent]. No timeout is no limit.
type Agent struct {
	TimeoutSec *float64 `toml:"timeout_sec"`
	User       any      `toml:"user"`
	Network
}

// Network is the network policy of a phase or environment.
type Network struct {
	Mode         string   `toml:"network_mode"` // "", public, no-network, allowlist
	AllowedHosts []string `toml:"allowed_hosts"`
}

// Verifier is [verifier].
type Verifier struct {
	TimeoutSec  *float64          `toml:"timeout_sec"` // 600
	Env         map[string]string `toml:"env"`
	User        any               `toml:"user"`
	Mode        string            `toml:"environment_mode"` // shared, separate
	Environment *Environment      `toml:"environment"`
	Collect     []Collect         `toml:"collect"`
	Network
}

// Collect is a command that gathers artifacts after the agent.
type Collect struct {
	Command    string   `toml:"command"`
	Service    string   `toml:"service"`     // main
	TimeoutSec *float64 `toml:"timeout_sec"` // 60
	User       any      `toml:"user"`
}

// Solution is [solution].
type Solution struct {
	Env map[string]string `toml:"env"`
}

// Environment is [environment].
type Environment struct {
	BuildTimeoutSec *float64          `toml:"build_timeout_sec"` // 600: the whole start
	DockerImage     string            `toml:"docker_image"`
	OS              string            `toml:"os"`
	CPUs            int               `toml:"cpus"`
	MemoryMB        int               `toml:"memory_mb"`
	StorageMB       int               `toml:"storage_mb"`
	GPUs            int               `toml:"gpus"`
	Memory          string            `toml:"memory"`  // memory_mb's old form, such as "2G"
	Storage         string            `toml:"storage"` // storage_mb's old form
	GPUTypes        []string          `toml:"gpu_types"`
	TPU             map[string]any    `toml:"tpu"`
	MCPServers      []MCPServer       `toml:"mcp_servers"`
	Env             map[string]string `toml:"env"`
	SkillsDir       string            `toml:"skills_dir"`
	Healthcheck     *Healthcheck      `toml:"healthcheck"`
	Workdir         string            `toml:"workdir"`
	AllowInternet   *bool             `toml:"allow_internet"` // network_mode's old form
	Network
}

// MCPServer is one of [[environment.mcp_servers]].
type MCPServer struct {
	Name      string   `toml:"name"`
	Transport string   `toml:"transport"`
	URL       string   `toml:"url"`
	Command   string   `toml:"command"`
	Args      []string `toml:"args"`
}

// Healthcheck is [environment.healthcheck]: the command must succeed before the agent begins.
type Healthcheck struct {
	Command          string   `toml:"command"`
	IntervalSec      *float64 `toml:"interval_sec"`       // 5
	TimeoutSec       *float64 `toml:"timeout_sec"`        // 30
	StartPeriodSec   *float64 `toml:"start_period_sec"`   // 0
	StartIntervalSec *float64 `toml:"start_interval_sec"` // 5
	Retries          *int     `toml:"retries"`            // 3
}

// Step is one of [[steps]].
type Step struct {
	Name        string       `toml:"name"`
	Agent       *Agent       `toml:"agent"`
	Verifier    *Verifier    `toml:"verifier"`
	MinReward   any          `toml:"min_reward"`
	Healthcheck *Healthcheck `toml:"healthcheck"`
	Artifacts   []any        `toml:"artifacts"`
}

// Artifact is a file or folder to keep.
type Artifact struct {
	Source      string
	Destination string // under artifacts/; "" = the source's own path
	Exclude     []string
	Service     string // main
}

// Seconds is a time in seconds as a duration, or the default where none is given.
func Seconds(s *float64, otherwise time.Duration) time.Duration {
	if s == nil {
		return otherwise
	}
	return time.Duration(*s * float64(time.Second))
}

func (t *Task) readConfig() error {
	const file = "task.toml"
	b, err := os.ReadFile(filepath.Join(t.Dir, file))
	if err != nil {
		return fault.New(fault.BadTask, "task %s: %s cannot be read: %v", t.Name, file, err)
	}
	c := &t.Config
	md, err := toml.Decode(string(b), c)
	if err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			return fault.New(fault.BadTask, "task %s: %s: %s", t.Name, at(file, pe.Position.Line), pe.Message+lastKey(pe))
		}
		return fault.New(fault.BadTask, "task %s: %s: %v", t.Name, file, err)
	}
	c.lines = keyLines(string(b))
	for _, k := range md.Undecoded() {
		if k[0] != "metadata" && len(k) > 0 {
			t.Warnings = append(t.Warnings, fmt.Sprintf("%s: the key %s is unknown and has no effect", at(file, c.lines[k.String()]), k))
		}
	}
	if err := c.check(); err != nil {
		return fault.Wrap(fault.BadTask, err, "task %s: %s", t.Name, file)
	}
	if v := c.SchemaVersion; v != "" && !slices.Contains([]string{"1.0", "1.1", "1.2", "1.3", "1.4"}, v) {
		t.Warnings = append(t.Warnings, fmt.Sprintf("%s: schema_version %s is not one of 1.0 to 1.4", at(file, c.line("schema_version")), v))
	}
	for _, n := range c.needs() {
		t.need(file, c.line(strings.Split(n.File, ".")...), n.What)
	}
	return nil
}

func lastKey(pe toml.ParseError) string {
	if pe.LastKey == "" {
		return ""
	}
	return fmt.Sprintf(" (at key %s)", pe.LastKey)
}

func at(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

var header = regexp.MustCompile(`^\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$`)

// keyLines finds the line of each table and plain key, for messages. It reads one key a line, as such files are written.
func keyLines(src string) map[string]int {
	lines, table, n := map[string]int{}, "", 0
	first := func(k string) {
		if _, ok := lines[k]; !ok {
			lines[k] = n
		}
	}
	for line := range strings.Lines(src) {
		n++
		if m := header.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil {
			table = m[1] + "."
			first(m[1])
			continue
		}
		if k, _, ok := strings.Cut(line, "="); ok {
			first(table + strings.Trim(strings.TrimSpace(k), `"'`))
		}
	}
	return lines
}

// line is where a key stands, or its nearest table, or 0.
func (c *Config) line(key ...string) int {
	for ; len(key) > 0; key = key[:len(key)-1] {
		if n := c.lines[strings.Join(key, ".")]; n > 0 {
			return n
		}
	}
	return 0
}

// keyError is a broken rule at a key.
func (c *Config) keyError(key, format string, args ...any) error {
	where := ""
	if n := c.line(strings.Split(key, ".")...); n > 0 {
		where = fmt.Sprintf("line %d: ", n)
	}
	return fault.New(fault.BadTask, "%s%s %s", where, key, fmt.Sprintf(format, args...))
}

var taskName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

func (c *Config) check() error {
	if c.SchemaVersion == "" {
		c.SchemaVersion = c.Version
	}
	if n := c.Task.Name; n != "" && (!taskName.MatchString(n) || strings.Contains(n, "..")) {
		return c.keyError("task.name", "is %q; it must be organisation/name", n)
	}
	if r := c.RewardOf; r != "" && r != "mean" && r != "final" {
		return c.keyError("multi_step_reward_strategy", "is %q; it must be mean or final", r)
	}
	times := map[string]*float64{
		"agent.timeout_sec": c.Agent.TimeoutSec, "verifier.timeout_sec": c.Verifier.TimeoutSec,
		"environment.build_timeout_sec": c.Environment.BuildTimeoutSec,
	}
	for k, v := range times {
		if v != nil && !(*v > 0 && *v < 1e8) {
			return c.keyError(k, "is %v; it must be a positive number of seconds", *v)
		}
	}
	for k, n := range map[string]*Network{"agent": &c.Agent.Network, "verifier": &c.Verifier.Network, "environment": &c.Environment.Network} {
		if err := c.checkNetwork(k, n); err != nil {
			return err
		}
	}
	if err := c.checkEnvironment("environment", &c.Environment); err != nil {
		return err
	}
	if err := c.checkVerifier(); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, s := range c.Steps {
		if s.Name == "" || names[s.Name] || strings.ContainsAny(s.Name, "/\\") || s.Name == ".." {
			return c.keyError("steps", "has a step whose name is missing, used twice or no file name: %q", s.Name)
		}
		names[s.Name] = true
	}
	return c.readArtifacts()
}

func (c *Config) checkNetwork(table string, n *Network) error {
	switch n.Mode {
	case "", "public", "no-network", "allowlist":
	default:
		return c.keyError(table+".network_mode", "is %q; it must be public, no-network or allowlist", n.Mode)
	}
	if len(n.AllowedHosts) > 0 && n.Mode != "allowlist" {
		return c.keyError(table+".allowed_hosts", "goes only with network_mode = \"allowlist\"")
	}
	return nil
}

func (c *Config) checkVerifier() error {
	v := &c.Verifier
	switch v.Mode {
	case "":
		v.Mode = "shared"
		if v.Environment != nil {
			v.Mode = "separate"
		}
	case "shared":
		if v.Environment != nil {
			return c.keyError("verifier.environment", "contradicts environment_mode = \"shared\"")
		}
	case "separate":
	default:
		return c.keyError("verifier.environment_mode", "is %q; it must be shared or separate", v.Mode)
	}
	if v.Environment != nil {
		if err := c.checkEnvironment("verifier.environment", v.Environment); err != nil {
			return err
		}
	}
	for _, x := range v.Collect {
		if strings.TrimSpace(x.Command) == "" {
			return c.keyError("verifier.collect", "has an entry without a command")
		}
	}
	return nil
}

func (c *Config) checkEnvironment(table string, e *Environment) error {
	e.OS = strings.ToLower(e.OS)
	if e.OS != "" && e.OS != "linux" && e.OS != "windows" {
		return c.keyError(table+".os", "is %q; it must be linux or windows", e.OS)
	}
	for _, s := range []struct {
		key, old string
		mb       *int
	}{{"memory", e.Memory, &e.MemoryMB}, {"storage", e.Storage, &e.StorageMB}} {
		if s.old == "" {
			continue
		}
		mb, ok := megabytes(s.old)
		if !ok {
			return c.keyError(table+"."+s.key, "is %q; it must be a size such as 2G, 512M or 1024K", s.old)
		}
		if *s.mb != 0 && *s.mb != mb {
			return c.keyError(table+"."+s.key, "is %s, but %s_mb is %d", s.old, s.key, *s.mb)
		}
		*s.mb = mb
	}
	for k, n := range map[string]int{"cpus": e.CPUs, "memory_mb": e.MemoryMB, "storage_mb": e.StorageMB, "gpus": e.GPUs} {
		if n < 0 {
			return c.keyError(table+"."+k, "is %d; it must not be negative", n)
		}
	}
	if e.Workdir != "" && !path.IsAbs(e.Workdir) {
		return c.keyError(table+".workdir", "is %q; it must be an absolute path", e.Workdir)
	}
	if e.AllowInternet != nil && e.Mode == "" {
		e.Mode = "no-network"
		if *e.AllowInternet {
			e.Mode = "public"
		}
	}
	if h := e.Healthcheck; h != nil && strings.TrimSpace(h.Command) == "" {
		return c.keyError(table+".healthcheck", "has no command")
	}
	return nil
}

// megabytes reads 2G, 512M or 1024K.
func megabytes(s string) (int, bool) {
	s = strings.ToUpper(strings.TrimSpace(s))
	if s == "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s[:len(s)-1], 64)
	if err != nil || f < 0 || f > 1e9 {
		return 0, false
	}
	switch s[len(s)-1] {
	case 'G':
		return int(f * 1024), true
	case 'M':
		return int(f), true
	case 'K':
		return int(f / 1024), true
	}
	return 0, false
}

func (c *Config) readArtifacts() error {
	for _, raw := range c.RawArtifacts {
		a := Artifact{Service: "main"}
		switch v := raw.(type) {
		case string:
			a.Source = v
		case map[string]any:
			a.Source, _ = v["source"].(string)
			a.Destination, _ = v["destination"].(string)
			if s, ok := v["service"].(string); ok {
				a.Service = s
			}
			ex, _ := v["exclude"].([]any)
			for _, e := range ex {
				if s, ok := e.(string); ok {
					a.Exclude = append(a.Exclude, s)
				}
			}
		}
		switch {
		case a.Source == "" || slices.Contains(strings.Split(a.Source, "/"), ".."):
			return c.keyError("artifacts", "has an entry whose source is missing or holds \"..\"")
		case a.Destination != "" && (path.IsAbs(a.Destination) || slices.Contains(strings.Split(a.Destination, "/"), "..") || path.Clean(a.Destination) == "manifest.json"):
			return c.keyError("artifacts", "has the destination %q; it must be relative, without \"..\", and not manifest.json", a.Destination)
		case a.Service != "main" && !path.IsAbs(a.Source):
			return c.keyError("artifacts", "of service %s needs an absolute source, not %q", a.Service, a.Source)
		}
		c.Artifacts = append(c.Artifacts, a)
	}
	return nil
}

// needs names what task.toml asks for beyond one public sandbox; File holds the key.
func (c *Config) needs() []Need {
	var ns []Need
	add := func(when bool, key, what string) {
		if when {
			ns = append(ns, Need{What: what, File: key})
		}
	}
	e, v := &c.Environment, &c.Verifier
	add(len(c.Steps) > 0, "steps", "[[steps]]: a task in several steps")
	add(v.Mode == "separate", "verifier.environment_mode", "a separate verifier environment")
	add(e.OS == "windows", "environment.os", "os = \"windows\"")
	add(e.GPUs > 0, "environment.gpus", fmt.Sprintf("gpus = %d", e.GPUs))
	add(len(e.TPU) > 0, "environment.tpu", "a TPU")
	add(len(e.MCPServers) > 0, "environment.mcp_servers", "mcp_servers")
	add(e.SkillsDir != "", "environment.skills_dir", "skills_dir")
	for table, n := range map[string]Network{"environment": e.Network, "agent": c.Agent.Network, "verifier": v.Network} {
		if n.Mode == "no-network" || n.Mode == "allowlist" {
			key := table + ".network_mode"
			if c.lines[key] == 0 {
				key = table + ".allow_internet"
			}
			add(true, key, fmt.Sprintf("[%s] network_mode = %q: network isolation", table, n.Mode))
		}
	}
	add(!isRoot(c.Agent.User), "agent.user", fmt.Sprintf("[agent] user = %v", c.Agent.User))
	add(!isRoot(v.User), "verifier.user", fmt.Sprintf("[verifier] user = %v", v.User))
	for _, x := range v.Collect {
		add(x.Service != "" && x.Service != "main", "verifier.collect", "[[verifier.collect]] in service "+x.Service)
		add(!isRoot(x.User), "verifier.collect", fmt.Sprintf("[[verifier.collect]] user = %v", x.User))
	}
	for _, a := range c.Artifacts {
		add(a.Service != "main", "artifacts", "artifacts of service "+a.Service)
	}
	slices.SortFunc(ns, func(a, b Need) int { return strings.Compare(a.File+a.What, b.File+b.What) })
	return ns
}

func isRoot(user any) bool {
	switch u := user.(type) {
	case nil:
		return true
	case string:
		return u == "" || u == "root" || u == "0"
	case int64:
		return u == 0
	}
	return false
}
