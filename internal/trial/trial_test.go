package trial_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/harness"
	"github.com/tito-rl/tito/internal/harness/nop"
	"github.com/tito-rl/tito/internal/harness/oracle"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/sandbox/local"
	"github.com/tito-rl/tito/internal/task"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/internal/trial"
)

var rewrite = flag.Bool("rewrite", false, "regenerate golden files")

func TestMain(m *testing.M) {
	local.MaybeInit()
	goleak.VerifyTestMain(m)
}

// script is an agent that runs a bash script in the sandbox.
type script struct {
	do    string
	setup string
	calls bool // needs an endpoint
}

func (s script) Info() harness.Info {
	return harness.Info{Name: "script", Version: "0", NeedsEndpoint: s.calls}
}

func (s script) Setup(ctx context.Context, env harness.Env) error {
	if s.setup == "" {
		return nil
	}
	res, err := env.Sandbox.Exec(ctx, sandbox.Cmd{Args: []string{"bash", "-c", s.setup}})
	if err == nil && res.Code != 0 {
		err = fault.New(fault.HarnessMissing, "not installed")
	}
	return err
}

func (s script) Run(ctx context.Context, env harness.Env) (harness.Result, error) {
	res, err := env.Sandbox.Exec(ctx, sandbox.Cmd{
		Args: []string{"bash", "-c", s.do}, Env: map[string]string{"URL": env.Endpoint.BaseURL}, Grace: 100 * time.Millisecond,
	})
	return harness.Result{Code: res.Code, Signal: res.Signal}, err
}

// served is a trajectory whose sealed state is given.
type served struct {
	sealed trial.Sealed
	err    error
	file   string
}

func (s *served) Open(_ context.Context, _ trajectory.Identities, _ harness.Info, journal string) (trial.Served, error) {
	s.file = journal
	return s, nil
}

func (s *served) Endpoint() harness.Endpoint {
	return harness.Endpoint{BaseURL: "http://127.0.0.1:1/t/x/v1", APIKey: "the-secret-key", Model: "policy"}
}

func (s *served) Seal(context.Context, string) (trial.Sealed, error) {
	return s.sealed, errors.Join(s.err, os.WriteFile(s.file, []byte("journal"), 0o644))
}

// countTask is testdata's task with changes; a value of "-" removes a file.
func countTask(t testing.TB, changes map[string]string) *task.Task {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "count")
	if err := os.CopyFS(dir, os.DirFS("testdata/tasks/count")); err != nil {
		t.Fatal(err)
	}
	for k, v := range changes {
		p := filepath.Join(dir, k)
		if v == "-" {
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(v), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	tk, err := task.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func provider(t testing.TB) *local.Provider {
	t.Helper()
	p := local.New(local.Options{})
	if err := p.Namespaces(); err != nil {
		testkit.Missing(t, "%v", err)
	}
	return p
}

func config(t testing.TB, p sandbox.Provider, tk *task.Task, h harness.Harness) trial.Config {
	t.Helper()
	return trial.Config{Task: tk, Harness: h, Provider: p, Dir: filepath.Join(t.TempDir(), trial.NewName(tk))}
}

func run(t testing.TB, c trial.Config) *trial.Result {
	t.Helper()
	res, err := trial.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, c, res)
	return res
}

// whole checks that result.json says what Run returned, and that nothing else is left.
func whole(t testing.TB, c trial.Config, res *trial.Result) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(c.Dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.MarshalIndent(res, "", "  ")
	if err != nil || string(b) != string(again)+"\n" {
		t.Errorf("result.json differs from the result: %v\n%s", err, b)
	}
	es, err := os.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		switch e.Name() {
		case "agent", "verifier", "artifacts", "result.json", "trial.log", "exception.txt", "trajectory.tito":
		default:
			t.Errorf("%s is left in the trial's folder", e.Name())
		}
	}
}

type want struct {
	outcome   trial.Outcome
	reward    float64
	none      bool // no reward
	exception string
	code      fault.Code
}

func check(t testing.TB, res *trial.Result, w want) {
	t.Helper()
	var got want
	got.outcome = res.Tito.Outcome
	if got.none = res.Tito.Reward == nil; !got.none {
		got.reward = *res.Tito.Reward
	}
	if e := res.Exception; e != nil {
		got.exception, got.code = e.Type, e.Code
	}
	if got != w {
		t.Errorf("got %+v, want %+v; exceptions %+v", got, w, res.Tito.Exceptions)
	}
}

func TestTheOracleScoresOneAndDoingNothingZero(t *testing.T) {
	for _, p := range []sandbox.Provider{provider(t), local.New(local.Options{Plain: true})} {
		c := config(t, p, countTask(t, map[string]string{
			"solution/solve.sh": "cd $TITO_TASK_ROOT/app; ./bin/tool data/lines.txt | tr -d ' ' > answer.txt; echo $KIND $GREETING",
		}), oracle.Harness{})
		res := run(t, c)
		check(t, res, want{outcome: trial.Scored, reward: 1})
		if b, _ := os.ReadFile(filepath.Join(c.Dir, "agent", "oracle.txt")); string(b) != "count hello\n" {
			t.Errorf("oracle.txt: %q", b)
		}
		if b, _ := os.ReadFile(filepath.Join(c.Dir, "verifier", "test-stdout.txt")); !strings.HasPrefix(string(b), "kind count, greeting hello, in /") {
			t.Errorf("test-stdout.txt: %q", b)
		}
		check(t, run(t, config(t, p, countTask(t, nil), nop.Harness{})), want{outcome: trial.Scored, reward: 0})
	}
}

func TestResultJSONHasHarborsShape(t *testing.T) {
	t.Parallel()
	c := config(t, provider(t), countTask(t, nil), script{do: "exit 3", calls: true})
	c.Server = &served{sealed: trial.Sealed{Turns: 2, Prompt: 30, Cached: 10, Completion: 5, Head: "abcd"}}
	c.IDs = trajectory.Identities{Trajectory: "t1", Trial: "tr1", Run: "r1", Group: "g1", Member: 2, Retry: 1}
	c.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6789000, time.FixedZone("", 3600)) }
	c.ID = "11111111-2222-4333-8444-555555555555"
	var phases []string
	c.Progress = func(e trial.Event) {
		if !e.Ended {
			phases = append(phases, string(e.Phase))
		}
	}
	check(t, run(t, c), want{outcome: trial.Scored, reward: 0, exception: "NonZeroAgentExitCodeError", code: fault.HarnessFailed})
	if got := strings.Join(phases, " "); got != "environment_setup agent_setup agent_execution seal verifier" {
		t.Errorf("phases: %s", got)
	}
	b, err := os.ReadFile(filepath.Join(c.Dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "the-secret-key") {
		t.Error("result.json holds the key")
	}
	got := strings.NewReplacer(c.Task.Dir, "TASK", filepath.Dir(c.Dir), "TRIALS", filepath.Base(c.Dir), "NAME").Replace(string(b))
	golden(t, "testdata/result.json", got)
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(b), got); diff != "" {
		t.Errorf("%s (-rewrite regenerates it):\n%s", file, diff)
	}
}

// daemon starts a loop in a session of its own, that ignores every signal it can.
func daemon(body string) string {
	return `setsid bash -c 'trap "" TERM HUP INT; echo > up; while :; do ` + body + `; done' >/dev/null 2>&1 & disown; until [ -e up ]; do :; done`
}

func TestAnAgentCannotRewardItself(t *testing.T) {
	p := provider(t)
	for name, do := range map[string]string{
		"PlantedReward":      `mkdir -p /logs/verifier && echo '{"reward": 1}' > /logs/verifier/reward.json && echo 1 > /logs/verifier/reward.txt`,
		"BackgroundLoop":     daemon(`mkdir -p /logs/verifier; echo "{\"reward\": 1}" > /logs/verifier/reward.json`),
		"WaitsForTheTests":   daemon(`[ -e /tests/test.sh ] && echo 7 > answer.txt`),
		"PlantedTests":       `mkdir -p /tests && echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh && chmod 555 /tests /tests/test.sh`,
		"LinkedFolders":      `mkdir -p /app/x && rm -rf /tests /logs/verifier; ln -s /app/x /tests; ln -s /app/x /logs/verifier; echo 1 > /app/x/reward.txt`,
		"LinkedReward":       `mkdir -p /logs/verifier; ln -s /app/one /logs/verifier/reward.json; echo '{"reward":1}' > /app/one`,
		"ReplacedBash":       `rm /bin; mkdir /bin; printf '#!/usr/bin/bash\necho 1 > /logs/verifier/reward.txt\n' > /bin/bash; chmod +x /bin/bash`,
		"ReadsNoTests":       `[ ! -e /tests/test.sh ] && [ ! -e /solution/solve.sh ] || echo 7 > /app/answer.txt`,
		"OverwritesPrograms": `echo x > /usr/bin/bash; mount --bind /app /usr; cp /bin/true /usr/local/bin/bash`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := run(t, config(t, p, countTask(t, nil), script{do: do + "\nexit 0"}))
			check(t, res, want{outcome: trial.Scored, reward: 0})
		})
	}
}

func TestVerifiersThatGoWrongGiveNoReward(t *testing.T) {
	p := provider(t)
	sh := func(s string) map[string]string { return map[string]string{"tests/test.sh": s} }
	infra := func(exception string, code fault.Code) want {
		return want{outcome: trial.InfraFailed, none: true, exception: exception, code: code}
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  want
	}{
		{"NoRewardFile", sh("exit 0"), infra("RewardFileNotFoundError", fault.RewardMissing)},
		{"EmptyReward", sh("> /logs/verifier/reward.txt"), infra("RewardFileEmptyError", fault.RewardEmpty)},
		{"EmptyJSONIsNotPassedOver", sh("> /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt"), infra("RewardFileEmptyError", fault.RewardEmpty)},
		{"NaN", sh("echo nan > /logs/verifier/reward.txt"), infra("VerifierOutputParseError", fault.RewardBad)},
		{"NaNInJSON", sh(`echo '{"reward": NaN}' > /logs/verifier/reward.json`), infra("VerifierOutputParseError", fault.RewardBad)},
		{"Text", sh("echo 3 passed > /logs/verifier/reward.txt"), infra("VerifierOutputParseError", fault.RewardBad)},
		{"Pipe", sh("mkfifo /logs/verifier/reward.json"), infra("VerifierOutputParseError", fault.RewardBad)},
		{"LinkOutOfTheFolder", sh("ln -s /etc/hostname /logs/verifier/reward.txt"), infra("VerifierOutputParseError", fault.RewardBad)},
		{"TwoWithoutAMain", sh(`echo '{"a": 1, "b": 0}' > /logs/verifier/reward.json`), infra("VerifierOutputParseError", fault.RewardBad)},
		{"JSONBeforeText", sh(`echo '{"reward": 0.5, "parts": 2, "ok": true}' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt`), want{outcome: trial.Scored, reward: 0.5}},
		{"ExitCodeIsIgnored", sh("echo 1 > /logs/verifier/reward.txt; exit 9"), want{outcome: trial.Scored, reward: 1}},
		{"NoShebangAndNotExecutable", sh("echo 1 > /logs/verifier/reward.txt"), want{outcome: trial.Scored, reward: 1}},
		{"LeftOverWriter", sh("(while :; do echo 1 > /logs/verifier/reward.txt; done) & disown; echo '{\"reward\": 0.25}' > /logs/verifier/reward.json"), want{outcome: trial.Scored, reward: 0.25}},
		{
			"Timeout", map[string]string{"task.toml": "[verifier]\ntimeout_sec = 0.3\n", "tests/test.sh": "echo 1 > /logs/verifier/reward.txt; sleep 1000"},
			want{outcome: trial.OutOfTime, none: true, exception: "VerifierTimeoutError", code: fault.VerifierTimeout},
		},
		{"VariableNotSet", map[string]string{"task.toml": "[verifier]\nenv = {A = \"${NOT_SET}\"}\n"}, infra("BadTaskError", fault.BadTask)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			check(t, run(t, config(t, p, countTask(t, c.files), nop.Harness{})), c.want)
		})
	}
}

func TestABigOutputIsCut(t *testing.T) {
	t.Parallel()
	c := config(t, provider(t), countTask(t, map[string]string{
		"tests/test.sh": "head -c 30000000 /dev/zero; echo 1 > /logs/verifier/reward.txt",
	}), script{do: "head -c 30000000 /dev/zero; head -c 30000000 /dev/zero >&2"})
	check(t, run(t, c), want{outcome: trial.Scored, reward: 1})
	fi, err := os.Stat(filepath.Join(c.Dir, "verifier", "test-stdout.txt"))
	if err != nil || fi.Size() < 16<<20 || fi.Size() > 17<<20 {
		t.Errorf("%v %v", fi, err)
	}
}

func TestAnAgentOutOfTimeIsVerified(t *testing.T) {
	p := provider(t)
	stubborn := `trap '' TERM INT HUP; (trap '' TERM; while :; do echo x >> /logs/agent/beat; done) & while :; do :; done`
	files := map[string]string{"task.toml": "[agent]\ntimeout_sec = 3\n"}
	for name, c := range map[string]struct {
		do     string
		reward float64
	}{
		"WithItsWorkDone": {"echo 7 > answer.txt; " + stubborn, 1},
		"WithNothing":     {stubborn, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tk := countTask(t, files)
			tk.Config.Verifier.Env = map[string]string{"EXPECTED": "7"}
			cfg := config(t, p, tk, script{do: c.do})
			cfg.Timeouts.AgentMultiplier = 0.1
			check(t, run(t, cfg), want{outcome: trial.OutOfTime, reward: c.reward, exception: "AgentTimeoutError", code: fault.AgentTimeout})
		})
	}
}

func TestWhatBreaksBeforeTheAgentEndsTheTrialUnscored(t *testing.T) {
	p := provider(t)
	c := config(t, p, countTask(t, nil), script{setup: "exit 1"})
	check(t, run(t, c), want{outcome: trial.InfraFailed, none: true, exception: "HarnessMissingError", code: fault.HarnessMissing})
	c = config(t, p, countTask(t, nil), script{setup: "sleep 1000"})
	c.Timeouts.Setup = 200 * time.Millisecond
	check(t, run(t, c), want{outcome: trial.InfraFailed, none: true, exception: "AgentSetupTimeoutError", code: fault.HarnessFailed})
	health := "[environment.healthcheck]\ninterval_sec = 0.01\nretries = 2\ncommand = \"%s\"\n"
	c = config(t, p, countTask(t, map[string]string{"task.toml": strings.ReplaceAll(health, "%s", "echo x >> tries; exit 1")}), nop.Harness{})
	check(t, run(t, c), want{outcome: trial.InfraFailed, none: true, exception: "HealthcheckError", code: fault.SandboxFailed})
	c = config(t, p, countTask(t, map[string]string{"task.toml": strings.ReplaceAll(health, "%s", "echo x >> tries; [ $(wc -l < tries) = 2 ]")}), nop.Harness{})
	check(t, run(t, c), want{outcome: trial.Scored, reward: 0})
}

func TestTheTraceDecidesTheOutcomeToo(t *testing.T) {
	p := provider(t)
	for name, c := range map[string]struct {
		served served
		do     string
		want   want
	}{
		"Served":     {served{sealed: trial.Sealed{Turns: 1}}, "echo 7 > answer.txt; [ -n \"$URL\" ]", want{outcome: trial.Scored, reward: 1}},
		"Broken":     {served{sealed: trial.Sealed{Broken: fault.New(fault.StoreFailed, "lost")}}, "echo 7 > answer.txt", want{outcome: trial.TraceBroken, none: true, exception: "StoreFailedError", code: fault.StoreFailed}},
		"SealFailed": {served{err: fault.New(fault.DiskFull, "full")}, "true", want{outcome: trial.TraceBroken, none: true, exception: "DiskFullError", code: fault.DiskFull}},
		"Context":    {served{sealed: trial.Sealed{Turns: 1, OutOfContext: true}}, "exit 1", want{outcome: trial.OutOfContext, exception: "NonZeroAgentExitCodeError", code: fault.HarnessFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tk := countTask(t, nil)
			cfg := config(t, p, tk, script{do: c.do, calls: true})
			cfg.Server = &c.served
			res := run(t, cfg)
			check(t, res, c.want)
			if res.Tito.Turns != c.served.sealed.Turns || res.Tito.Artifact == nil || *res.Tito.Artifact != "trajectory.tito" {
				t.Errorf("%+v", res.Tito)
			}
		})
	}
}

func TestACancelledTrialEndsCleanlyInEveryPhase(t *testing.T) {
	p := provider(t)
	for _, phase := range []trial.Phase{trial.PhaseEnvironment, trial.PhaseSetup, trial.PhaseAgent, trial.PhaseVerifier} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			c := config(t, p, countTask(t, map[string]string{"tests/test.sh": "sleep 1000"}), script{do: "true", setup: "true", calls: true})
			if phase == trial.PhaseAgent {
				c.Harness = script{do: "trap '' TERM; sleep 1000 & wait", calls: true}
			}
			s := &served{}
			c.Server = s
			c.Progress = func(e trial.Event) {
				if e.Phase == phase && !e.Ended {
					cancel()
				}
			}
			res, err := trial.Run(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			whole(t, c, res)
			check(t, res, want{outcome: trial.Cancelled, none: true, exception: "CancelledError", code: fault.Interrupted})
		})
	}
}

func TestATrialThatCannotBeginLeavesNothing(t *testing.T) {
	p := provider(t)
	files := func(k, v string) map[string]string { return map[string]string{k: v} }
	for name, c := range map[string]struct {
		files map[string]string
		h     harness.Harness
		p     sandbox.Provider
		code  fault.Code
	}{
		"RUN":            {files("environment/Dockerfile", "FROM x\nRUN apt-get install -y jq\n"), nop.Harness{}, p, fault.UnsupportedTask},
		"Steps":          {files("task.toml", "[[steps]]\nname = \"a\"\n"), nop.Harness{}, p, fault.UnsupportedTask},
		"NoNetwork":      {files("task.toml", "[environment]\nallow_internet = false\n"), nop.Harness{}, p, fault.UnsupportedTask},
		"NoEngine":       {nil, script{calls: true}, p, fault.BadConfig},
		"SharedFolder":   {files("environment/Dockerfile", "FROM x\nCOPY tool.sh /usr/local/bin/tool\n"), nop.Harness{}, p, fault.SandboxUnsupported},
		"UnsetVariable":  {files("task.toml", "[environment]\nenv = {A = \"${NOT_SET}\"}\n"), nop.Harness{}, p, fault.BadTask},
		"RealPathsPlain": {files("tests/test.sh", "echo 1 > /logs/verifier/reward.txt"), nop.Harness{}, local.New(local.Options{Plain: true}), fault.SandboxUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, c.p, countTask(t, c.files), c.h)
			res, err := trial.Run(t.Context(), cfg)
			if fault.CodeOf(err) != c.code || res != nil {
				t.Errorf("%v %v", res, err)
			}
			if _, err := os.Lstat(cfg.Dir); err == nil {
				t.Error("its folder is left")
			}
		})
	}
	c := config(t, p, countTask(t, nil), nop.Harness{})
	if err := os.Mkdir(c.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := trial.Run(t.Context(), c); fault.CodeOf(err) != fault.BadConfig {
		t.Errorf("in a folder that is there: %v", err)
	}
}

func TestArtifactsAreKeptWithAManifest(t *testing.T) {
	t.Parallel()
	c := config(t, provider(t), countTask(t, map[string]string{"task.toml": `artifacts = [
  "/app/out", "missing.txt", "/app/out/inner", "/app/leak", {source = "notes.txt", destination = "kept/notes.txt"},
]
[[verifier.collect]]
command = "echo collected > /logs/artifacts/patch"
[[verifier.collect]]
command = "exit 1"
`}), script{do: `mkdir -p out/inner; echo x > out/inner/f; echo note > notes.txt; ln -s /etc/shadow leak`})
	c.Task.Config.Artifacts[0].Exclude = []string{"*.log"}
	check(t, run(t, c), want{outcome: trial.Scored, reward: 0})
	for file, want := range map[string]string{
		"app/out/inner/f": "x\n", "kept/notes.txt": "note\n", "logs/artifacts/patch": "collected\n",
	} {
		if b, err := os.ReadFile(filepath.Join(c.Dir, "artifacts", file)); err != nil || string(b) != want {
			t.Errorf("%s: %q %v", file, b, err)
		}
	}
	var manifest []struct{ Destination, Status string }
	b, err := os.ReadFile(filepath.Join(c.Dir, "artifacts", "manifest.json"))
	if err == nil {
		err = json.Unmarshal(b, &manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range manifest {
		got = append(got, m.Destination+" "+m.Status)
	}
	want := []string{"artifacts/logs/artifacts ok", "artifacts/app/out ok", "artifacts/app/missing.txt failed",
		"artifacts/app/out/inner skipped", "artifacts/app/leak failed", "artifacts/kept/notes.txt ok"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
