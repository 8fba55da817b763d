package task_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/task"
)

// writeTask writes a task that loads, with changes: a value of "-" removes a file.
func writeTask(t testing.TB, changes map[string]string) string {
	t.Helper()
	files := map[string]string{
		"task.toml": "version = \"1.0\"\n", "instruction.md": "Do it.\n",
		"environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n", "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
	}
	for k, v := range changes {
		files[k] = v
	}
	dir := filepath.Join(t.TempDir(), "the-task")
	for k, v := range files {
		if v == "-" {
			continue
		}
		p := filepath.Join(dir, k)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(v), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t testing.TB, changes map[string]string) *task.Task {
	t.Helper()
	tk, err := task.Load(writeTask(t, changes))
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func TestATaskIsReadWithItsDefaults(t *testing.T) {
	tk := load(t, nil)
	if tk.Name != "the-task" || tk.Short() != "the-task" || tk.Instruction != "Do it.\n" || tk.Workdir() != "/app" || tk.TaskRoot {
		t.Errorf("%+v", tk)
	}
	if tk.Config.Agent.TimeoutSec != nil || tk.Config.SchemaVersion != "1.0" || tk.Config.Verifier.Mode != "shared" || tk.Build.Image != "ubuntu:24.04" {
		t.Errorf("%+v", tk.Config)
	}
	if err := tk.Refuse(); err != nil {
		t.Error(err)
	}
	if tk.Solution() != "" {
		t.Error("a solution out of nothing")
	}
}

func TestOldSpellingsAreFoldedAndUnknownKeysAreWarnings(t *testing.T) {
	tk := load(t, map[string]string{"task.toml": `version = "1.1"
strange = 1
[task]
name = "org/a-very-long-name-for-a-task-in-this-world"
authors = [{name = "A", email = "a@b"}]
[metadata]
anything = {goes = [1, 2]}
[agent]
timeout_sec = 30
user = 0
[environment]
memory = "1.5G"
storage = "1024K"
allow_internet = true
env = {A = "b"}
[verifier]
timeout_sec = 2.5
[[verifier.collect]]
command = "true"
`})
	c := tk.Config
	if c.SchemaVersion != "1.1" || c.Environment.MemoryMB != 1536 || c.Environment.StorageMB != 1 || c.Environment.Mode != "public" {
		t.Errorf("%+v", c)
	}
	if *c.Agent.TimeoutSec != 30 || *c.Verifier.TimeoutSec != 2.5 || len(c.Verifier.Collect) != 1 {
		t.Errorf("%+v", c)
	}
	if tk.Short() != "a-very-long-name-for-a-task-in-t" {
		t.Errorf("short name %s", tk.Short())
	}
	if len(tk.Warnings) != 1 || !strings.Contains(tk.Warnings[0], "task.toml:2") || !strings.Contains(tk.Warnings[0], "strange") {
		t.Errorf("warnings %q", tk.Warnings)
	}
	if err := tk.Refuse(); err != nil {
		t.Error(err)
	}
}

func TestBrokenTasksNameFileLineAndKey(t *testing.T) {
	toml := func(s string) map[string]string { return map[string]string{"task.toml": s} }
	docker := func(s string) map[string]string { return map[string]string{"environment/Dockerfile": s} }
	for _, c := range []struct {
		name  string
		files map[string]string
		code  fault.Code
		says  []string
	}{
		{"NoToml", map[string]string{"task.toml": "-"}, fault.BadTask, []string{"task.toml"}},
		{"NoInstruction", map[string]string{"instruction.md": "-"}, fault.BadTask, []string{"instruction.md"}},
		{"EmptyInstruction", map[string]string{"instruction.md": "<!-- CANARY x -->\n\n"}, fault.BadTask, []string{"instruction.md"}},
		{"NoTest", map[string]string{"tests/test.sh": "-"}, fault.VerifierMissing, []string{"tests/test.sh"}},
		{"NoDockerfile", map[string]string{"environment/Dockerfile": "-"}, fault.BadTask, []string{"environment/Dockerfile"}},
		{"NotToml", toml("a = 1\nb = [\n"), fault.BadTask, []string{"task.toml:"}},
		{"WrongType", toml("[agent]\ntimeout_sec = \"long\"\n"), fault.BadTask, []string{"task.toml", "line 2", "timeout_sec"}},
		{"NegativeTimeout", toml("[agent]\n\ntimeout_sec = -1\n"), fault.BadTask, []string{"line 3", "agent.timeout_sec"}},
		{"NaNTimeout", toml("[verifier]\ntimeout_sec = nan\n"), fault.BadTask, []string{"line 2", "verifier.timeout_sec"}},
		{"BadName", toml("[task]\nname = \"no-organisation\"\n"), fault.BadTask, []string{"line 2", "task.name"}},
		{"BadMemory", toml("[environment]\nmemory = \"much\"\n"), fault.BadTask, []string{"environment.memory"}},
		{"TwoMemories", toml("[environment]\nmemory = \"1G\"\nmemory_mb = 5\n"), fault.BadTask, []string{"environment.memory"}},
		{"BadNetwork", toml("[environment]\nnetwork_mode = \"some\"\n"), fault.BadTask, []string{"environment.network_mode"}},
		{"HostsWithoutAllowlist", toml("[agent]\nallowed_hosts = [\"a\"]\n"), fault.BadTask, []string{"agent.allowed_hosts"}},
		{"SharedWithEnvironment", toml("[verifier]\nenvironment_mode = \"shared\"\n[verifier.environment]\ncpus = 1\n"), fault.BadTask, []string{"verifier.environment"}},
		{"ArtifactAbove", toml("artifacts = [\"../x\"]\n"), fault.BadTask, []string{"artifacts"}},
		{"ArtifactManifest", toml("artifacts = [{source = \"/x\", destination = \"manifest.json\"}]\n"), fault.BadTask, []string{"artifacts"}},
		{"RelativeWorkdir", toml("[environment]\nworkdir = \"app\"\n"), fault.BadTask, []string{"environment.workdir"}},
		{"StepsTwice", toml("[[steps]]\nname = \"a\"\n[[steps]]\nname = \"a\"\n"), fault.BadTask, []string{"steps"}},
		{"NoFrom", docker("# nothing\n"), fault.BadTask, []string{"environment/Dockerfile"}},
		{"BeforeFrom", docker("WORKDIR /app\nFROM x\n"), fault.BadTask, []string{"environment/Dockerfile:1"}},
		{"UnknownInstruction", docker("FROM x\n\n# c\nFETCH y\n"), fault.BadTask, []string{"environment/Dockerfile:4", "FETCH"}},
		{"CopyOfNothing", docker("FROM x\nCOPY a b\n"), fault.BadTask, []string{"environment/Dockerfile:2", "a"}},
		{"CopyAbove", docker("FROM x\nCOPY ../task.toml /app/\n"), fault.BadTask, []string{"environment/Dockerfile:2"}},
		{"OpenQuote", docker("FROM x\nENV A=\"b\n"), fault.BadTask, []string{"environment/Dockerfile:2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := task.Load(writeTask(t, c.files))
			if fault.CodeOf(err) != c.code {
				t.Fatalf("code %s: %v", fault.CodeOf(err), err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not name %s", err, s)
				}
			}
		})
	}
	if _, err := task.Load(filepath.Join(t.TempDir(), "none")); fault.CodeOf(err) != fault.FileMissing {
		t.Error(err)
	}
}

func TestWhatASandboxMayNotDoIsANeedByName(t *testing.T) {
	toml := func(s string) map[string]string { return map[string]string{"task.toml": s} }
	docker := func(s string) map[string]string { return map[string]string{"environment/Dockerfile": s} }
	for _, c := range []struct {
		name  string
		files map[string]string
		need  task.Need
	}{
		{"Steps", map[string]string{"task.toml": "[[steps]]\nname = \"a\"\n", "instruction.md": "-", "tests/test.sh": "-"}, task.Need{What: "[[steps]]: a task in several steps", File: "task.toml", Line: 1}},
		{"Separate", toml("[verifier.environment]\ncpus = 1\n"), task.Need{What: "a separate verifier environment", File: "task.toml"}},
		{"Windows", map[string]string{"task.toml": "[environment]\nos = \"Windows\"\n", "tests/test.sh": "-"}, task.Need{What: `os = "windows"`, File: "task.toml", Line: 2}},
		{"GPU", toml("[environment]\ngpus = 2\n"), task.Need{What: "gpus = 2", File: "task.toml", Line: 2}},
		{"MCP", toml("[[environment.mcp_servers]]\nname = \"m\"\n"), task.Need{What: "mcp_servers", File: "task.toml", Line: 1}},
		{"Skills", toml("[environment]\nskills_dir = \"/s\"\n"), task.Need{What: "skills_dir", File: "task.toml", Line: 2}},
		{"NoInternet", toml("[environment]\nallow_internet = false\n"), task.Need{What: `[environment] network_mode = "no-network": network isolation`, File: "task.toml", Line: 2}},
		{"Allowlist", toml("[agent]\nnetwork_mode = \"allowlist\"\n"), task.Need{What: `[agent] network_mode = "allowlist": network isolation`, File: "task.toml", Line: 2}},
		{"User", toml("[agent]\nuser = \"agent\"\n"), task.Need{What: "[agent] user = agent", File: "task.toml", Line: 2}},
		{"Service", toml("artifacts = [{source = \"/x\", service = \"db\"}]\n"), task.Need{What: "artifacts of service db", File: "task.toml", Line: 1}},
		{"Compose", map[string]string{"environment/docker-compose.yaml": "services: {}\n"}, task.Need{What: "a compose project", File: "environment/docker-compose.yaml"}},
		{"Image", map[string]string{"environment/Dockerfile": "-", "task.toml": "[environment]\ndocker_image = \"x\"\n"}, task.Need{What: "docker_image without a Dockerfile: a prebuilt image", File: "task.toml", Line: 2}},
		{"Run", docker("FROM x\n\nRUN apt-get update && \\\n  # why\n  apt-get install -y git\n"), task.Need{What: "RUN apt-get update && apt-get install -y git", File: "environment/Dockerfile", Line: 3}},
		{"RunHere", docker("FROM x\nRUN <<EOF\nFETCH this\nEOF\nWORKDIR /x\n"), task.Need{What: "RUN <<EOF", File: "environment/Dockerfile", Line: 2}},
		{"Stages", docker("FROM x\nFROM y\n"), task.Need{What: "a build of several stages: FROM y", File: "environment/Dockerfile", Line: 2}},
		{"CopyFrom", docker("FROM x\nCOPY --from=x /a /b\n"), task.Need{What: "COPY --from=x", File: "environment/Dockerfile", Line: 2}},
		{"Download", docker("FROM x\nADD https://x/y /y\n"), task.Need{What: "ADD https://x/y: a download", File: "environment/Dockerfile", Line: 2}},
		{"Archive", map[string]string{"environment/Dockerfile": "FROM x\nADD a.tar.gz /y\n", "environment/a.tar.gz": ""}, task.Need{What: "ADD a.tar.gz: unpacking an archive", File: "environment/Dockerfile", Line: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tk := load(t, c.files)
			if diff := cmp.Diff([]task.Need{c.need}, tk.Needs()); diff != "" {
				t.Error(diff)
			}
			if err := tk.Refuse(); fault.CodeOf(err) != fault.UnsupportedTask {
				t.Error(err)
			}
		})
	}
}

func TestCanaryLinesAreDroppedFromTheTopOnly(t *testing.T) {
	for in, want := range map[string]string{
		"<!-- some CANARY guid -->\n# canary two\n\n\n# Title\n# canary stays\n": "# Title\n# canary stays\n",
		"\n\n  text  \n":               "  text  \n",
		"text\n<!-- canary -->\n":      "text\n<!-- canary -->\n",
		"  # a Canary\r\n\r\nText\r\n": "Text\r\n",
		"<!-- no bird -->\nx":          "<!-- no bird -->\nx",
	} {
		if got := load(t, map[string]string{"instruction.md": in}).Instruction; got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestADockerfileIsHonouredForWorkdirEnvAndCopies(t *testing.T) {
	tk := load(t, map[string]string{
		"environment/Dockerfile": `# syntax=docker/dockerfile:1
ARG TAG=24.04
FROM --platform=linux/amd64 ubuntu:${TAG} AS base
ENV A=1 B="two words" C='$A' D=x\ y
ENV E some value with $B
ENV PATH=/opt/x/bin:$PATH F=${NONE:-fallback} G=${A:+set}
ARG SUB=data
WORKDIR /work
WORKDIR sub
COPY --chmod=0755 --chown=1:1 run.sh /usr-like/bin/run
COPY one.txt two.txt ./
COPY ["a b.txt", "/srv/"]
COPY ${SUB} /data
COPY data/*.csv /csv/
USER nobody
CMD ["bash"]
`,
		"environment/run.sh": "", "environment/one.txt": "", "environment/two.txt": "", "environment/a b.txt": "",
		"environment/data/x.csv": "", "environment/data/y.csv": "",
	})
	if err := tk.Refuse(); err != nil {
		t.Fatal(err)
	}
	b := tk.Build
	for i := range b.Copies {
		rel, err := filepath.Rel(filepath.Join(tk.Dir, "environment"), b.Copies[i].Src)
		if err != nil {
			t.Fatal(err)
		}
		b.Copies[i].Src = rel
	}
	want := task.Build{
		Image: "ubuntu:24.04", Workdir: "/work/sub", Dirs: []string{"/work", "/work/sub"},
		Env: map[string]string{
			"A": "1", "B": "two words", "C": "$A", "D": "x y", "E": "some value with two words", "F": "fallback", "G": "set",
			"PATH": "/opt/x/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		},
		Copies: []task.Copy{
			{Src: "run.sh", Dst: "/usr-like/bin/run", Mode: "0755", Line: 10},
			{Src: "one.txt", Dst: "/work/sub/one.txt", Line: 11}, {Src: "two.txt", Dst: "/work/sub/two.txt", Line: 11},
			{Src: "a b.txt", Dst: "/srv/a b.txt", Line: 12}, {Src: "data", Dst: "/data", Line: 13},
			{Src: "data/x.csv", Dst: "/csv/x.csv", Line: 14}, {Src: "data/y.csv", Dst: "/csv/y.csv", Line: 14},
		},
		Notes: []string{
			"environment/Dockerfile:3: FROM ubuntu:24.04: the host's own programs are used",
			"environment/Dockerfile:10: COPY --chown=1:1: files belong to root",
			"environment/Dockerfile:15: USER nobody has no effect", `environment/Dockerfile:16: CMD ["bash"] has no effect`,
		},
	}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyWholeValuesAreTemplates(t *testing.T) {
	got, err := task.Resolve(
		map[string]string{"A": "${X}", "B": "${Y:-de fault}", "C": "${X:-unused}", "D": "pre ${X}", "E": "$X", "F": "${Y:-}"},
		map[string]string{"X": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "x", "B": "de fault", "C": "x", "D": "pre ${X}", "E": "$X", "F": ""}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := task.Resolve(map[string]string{"A": "${Z}"}, nil); fault.CodeOf(err) != fault.BadTask {
		t.Error(err)
	}
}

func TestTheChecksumCountsNamesAndContentsOnly(t *testing.T) {
	dir := writeTask(t, nil)
	sum := func() string {
		t.Helper()
		tk, err := task.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := tk.Checksum()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := sum()
	// As the Python package dirhash gives it for these four files.
	if want := "e499c48ea3bc31644e3db797c1a5afce990d7a18a22438fbeedd869e703730c2"; first != want {
		t.Errorf("checksum %s, want %s", first, want)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "tests", "test.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if sum() != first {
		t.Error("an empty folder or a mode changed the checksum")
	}
	if err := os.Rename(filepath.Join(dir, "instruction.md"), filepath.Join(dir, "README.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "instruction.md"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if sum() == first {
		t.Error("a new file did not change the checksum")
	}
	if err := exec.Command("mkfifo", filepath.Join(dir, "pipe")).Run(); err == nil {
		sum() // a pipe is left out, never opened
	}
}

func FuzzDockerfile(f *testing.F) {
	f.Add("FROM x\nENV A=\"b\" C\\\n=d\nCOPY a b\nRUN <<E\nE\nWORKDIR ${A:-/x}")
	f.Add("FROM x\nCOPY [\"a\", \"b\"]\nADD --chmod=7777 . /")
	f.Fuzz(func(t *testing.T, src string) {
		_, _ = task.Load(writeTask(t, map[string]string{"environment/Dockerfile": src}))
	})
}

func FuzzConfig(f *testing.F) {
	f.Add("version = \"1.0\"\n[environment]\nmemory = \"2G\"\n")
	f.Add("artifacts = [1, {source = 2}]\n[agent]\nuser = [1]\n")
	f.Fuzz(func(t *testing.T, src string) {
		if tk, err := task.Load(writeTask(t, map[string]string{"task.toml": src})); err == nil {
			_ = tk.Refuse()
		}
	})
}
