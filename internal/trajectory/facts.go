// Package trajectory is the truth about one attempt of one agent at one task: an append-only tree of turns.
//
// A turn records facts, never policy. Continuity, ownership and the fate of each sampled id are pure functions of
// (facts, policy), so that they can be reported as a trajectory grows and computed again later under another policy.
// The package is pure. A Tree owns the slices of the records that it is given.
package trajectory

import (
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/token"
)

// Seq numbers the turns of a trajectory from 1, in the order in which they were committed. 0 is no turn.
type Seq uint32

// Hash is the SHA-256 of a blob: a message's raw bytes, a tools array, template settings.
type Hash [32]byte

// Identities names a trajectory in every header, file and result. Each is its own thing; a retry of a rollout renews all
// but Run, Group and Member.
type Identities struct {
	Trajectory string `json:"trajectory"`
	Trial      string `json:"trial,omitempty"`
	Run        string `json:"run,omitempty"`
	Group      string `json:"group,omitempty"`
	Member     int    `json:"member"`
	Retry      int    `json:"retry"`
	Affinity   string `json:"affinity,omitempty"` // prefix-cache affinity key given to the engine
}

// Header opens a trajectory.
type Header struct {
	Identities
	Tito       string     `json:"tito"`    // version and commit of the writer
	Created    int64      `json:"created"` // Unix milliseconds
	Custody    string     `json:"custody"` // "host", or "sandbox" where the agent could reach the file
	Prompt     string     `json:"prompt_mode"`
	RenderBy   string     `json:"render"` // "tito" or "engine" (capture)
	Model      ModelInfo  `json:"model"`
	Engine     string     `json:"engine"`
	Harness    string     `json:"harness,omitempty"` // name and version, where known
	MaxContext int        `json:"max_context,omitempty"`
	Policy     Policy     `json:"policy"` // in force while serving; later readers may choose another
	VocabSize  int        `json:"vocab_size"`
	Stops      []token.ID `json:"stops"` // the family's stop ids
}

// ModelInfo pins what a prompt's ids depend on.
type ModelInfo struct {
	Name      string `json:"name"`
	Family    string `json:"family"`
	Tokenizer string `json:"tokenizer_sha256"`
	Template  string `json:"template_sha256"`
}

// Class says whether a call is the policy acting on the task.
type Class string

// The classes.
const (
	ClassPolicy       Class = "policy"
	ClassAuxiliary    Class = "auxiliary"
	ClassUnclassified Class = "unclassified"
)

// Finish is why the engine stopped sampling.
type Finish string

// The finishes. Abort and Error keep what was sampled before.
const (
	FinishStop   Finish = "stop"
	FinishLength Finish = "length"
	FinishAbort  Finish = "abort" // cancelled: the client went away
	FinishError  Finish = "error" // the engine failed after some tokens
)

// Delivery is what became of an answer.
type Delivery string

// The deliveries. A turn without a delivery record is DeliveryAmbiguous.
const (
	DeliveryDelivered   Delivery = "delivered"   // the whole answer was written to the client
	DeliveryUndelivered Delivery = "undelivered" // it was not
	DeliveryAmbiguous   Delivery = "ambiguous"   // nobody knows
	DeliveryAborted     Delivery = "aborted"     // the client left while sampling went on
)

// PromptKnown says how the prompt's ids are known.
type PromptKnown string

// The ways, best first.
const (
	PromptEchoed   PromptKnown = "echoed"   // sent by tito, and the engine reports the same ids
	PromptReported PromptKnown = "reported" // rendered and reported by the engine
	PromptSent     PromptKnown = "sent"     // sent by tito, not reported back
)

// LogprobState says whether a turn's log probabilities can be trained on.
type LogprobState string

// The states; all but LogprobOK mask the turn, and name the reason.
const (
	LogprobOK      LogprobState = "ok"
	LogprobMissing LogprobState = "logprob_missing" // no list
	LogprobCount   LogprobState = "logprob_count"   // wrong length
	LogprobInvalid LogprobState = "logprob_invalid" // an entry null, not finite or above 0
)

// LogprobsOf judges a column for n completion ids. A nil column is missing.
func LogprobsOf(col []float32, n int) LogprobState {
	switch {
	case col == nil:
		return LogprobMissing
	case len(col) != n:
		return LogprobCount
	}
	for _, v := range col {
		if !(v <= 0) || v < -3.4028235e38 { // NaN fails the first test, -Inf the second
			return LogprobInvalid
		}
	}
	return LogprobOK
}

// Turn is one committed generation.
type Turn struct {
	Seq      Seq    `json:"seq"`
	Call     string `json:"call"` // id of the call, derived from trajectory and order of arrival
	Class    Class  `json:"class"`
	ClassWhy string `json:"class_why,omitempty"`

	// Prompt ids are Checkpoint(Parent)[:Keep] followed by Suffix. Keep is the longest common prefix with the parent's
	// checkpoint: where it ends is where continuity is decided. Without a parent Keep is 0, unless Base is set.
	Parent Seq `json:"parent"`
	// Nearest is, for a root, the earlier turn that is nearest to it, and Why the reason that no echo matched
	// (first, sub_agent, compaction, truncated_front, rewritten, …). With a parent, Why says how it was found
	// (echo, prefix).
	Nearest Seq        `json:"nearest"`
	Why     string     `json:"why"`
	Base    Seq        `json:"base"` // whose checkpoint Keep counts on: Parent, or for a root Nearest or none
	Keep    int        `json:"keep"`
	Suffix  []token.ID `json:"-"`

	Completion  []token.ID          `json:"-"`
	Logprobs    []float32           `json:"-"` // the behaviour policy's; nil = absent; any length: see LogprobsOf
	RawLogprobs []float32           `json:"-"` // before temperature and truncation; nil = absent
	Versions    []token.VersionSpan `json:"versions,omitempty"`
	Prompt      PromptKnown         `json:"prompt_known"`
	Sampling    chat.Sampling       `json:"sampling"`        // in force
	Processed   bool                `json:"processed"`       // Logprobs are those of the distribution sampled from
	Asked       string              `json:"asked,omitempty"` // JSON object: what the harness asked for and did not get
	MaxTokens   int                 `json:"max_tokens"`      // in force
	Finish      Finish              `json:"finish"`
	Stop        int64               `json:"stop"`            // stop id sampled as the last id, or -1
	Error       string              `json:"error,omitempty"` // fault code where Finish is error

	// The request's messages are Messages(MsgBase)[:MsgKeep] followed by MsgNew; content-addressed raw bytes.
	MsgBase  Seq    `json:"msg_base"`
	MsgKeep  int    `json:"msg_keep"`
	MsgNew   []Hash `json:"-"`
	Tools    Hash   `json:"-"`                // zero = none
	Settings Hash   `json:"-"`                // template settings and clock; zero = none
	Echoes   []Echo `json:"echoes,omitempty"` // of messages at MsgKeep and later, and always the parent's; in order

	Reply Reply `json:"reply"`

	Session       string `json:"session,omitempty"` // the harness's session header, a hint
	ParentSession string `json:"parent_session,omitempty"`
	Idempotency   string `json:"idempotency_key,omitempty"`
	RetryCount    int    `json:"retry_count,omitempty"`

	// Unix milliseconds; 0 = unknown. Started is when the request was read, Ended when the answer was committed.
	Started    int64 `json:"started"`
	FirstToken int64 `json:"first_token"`
	Ended      int64 `json:"ended"`
	Cached     int   `json:"cached_tokens"` // prompt tokens that the engine took from its cache, as it says
}

// Reply is the parsed view of a completion.
type Reply struct {
	Content   chat.Text  `json:"content"`
	Reasoning chat.Text  `json:"reasoning"`
	Calls     []CallFact `json:"calls,omitempty"`
	End       string     `json:"end"` // family.End
	Issues    []string   `json:"issues,omitempty"`
}

// CallFact is one tool-call attempt.
type CallFact struct {
	ID        string     `json:"id,omitempty"`       // minted; the harness sees it. Empty where the attempt is no call
	ModelID   string     `json:"model_id,omitempty"` // the model's own, which its template is given back
	Name      string     `json:"name"`
	Arguments string     `json:"arguments"` // as sampled
	Status    string     `json:"status"`    // family.AttemptStatus
	Span      token.Span `json:"span"`      // in the completion
}

// Verdict compares an echo with what was sampled.
type Verdict string

// The verdicts. Only exact and equivalent echoes may be realigned.
const (
	EchoExact      Verdict = "exact"
	EchoEquivalent Verdict = "equivalent"
	EchoRewritten  Verdict = "rewritten" // ids match, name or arguments or text changed in meaning
	EchoForeign    Verdict = "foreign"   // an assistant message that was never sampled here
)

// Echo is the harness's copy of a reply, found in a request.
type Echo struct {
	Message int      `json:"message"` // index in the request
	Turn    Seq      `json:"turn"`    // 0 for foreign
	Verdict Verdict  `json:"verdict"`
	By      string   `json:"by"`              // "ids" or "content"
	Which   []string `json:"which,omitempty"` // named equivalences, or the fields that were rewritten
}

// DeliveryFact is recorded when it is known what became of an answer.
type DeliveryFact struct {
	Seq   Seq      `json:"seq"`
	State Delivery `json:"state"`
	At    int64    `json:"at"`
}

// End closes a trajectory.
type End struct {
	Reason string `json:"reason"` // finished, cancelled, …
	At     int64  `json:"at"`
	Turns  int    `json:"turns"`
}

// Policy is everything that turns facts into samples. The zero value is not valid; see [DefaultPolicy].
type Policy struct {
	Realign       string `json:"realign"`     // prefix, off (cookbook and slime follow)
	RealignMax    int    `json:"realign_max"` // sampled ids that a realign may lose
	KeepRewritten bool   `json:"keep_rewritten"`
	Refused       string `json:"refused"`     // train, discard
	Subagents     string `json:"subagents"`   // train, context
	MaxContext    int    `json:"max_context"` // 0 = no limit
}

// DefaultPolicy is what runs without flags.
func DefaultPolicy() Policy {
	return Policy{Realign: "prefix", RealignMax: 128, Refused: "train", Subagents: "train"}
}

// Continuity says how a turn follows its parent under a policy.
type Continuity struct {
	Kind   Kind   `json:"kind"`
	Reason string `json:"reason,omitempty"` // for split and root; for extend and realign what explains it, if anything
	// First is the index in the parent's checkpoint at which the prompt differs; the length of the checkpoint for extend.
	First int `json:"first"`
	// Lost counts the parent's sampled ids after First, for realign.
	Lost int `json:"lost,omitempty"`
}

// Kind is one of root, extend, realign, split.
type Kind string

// The kinds.
const (
	Root    Kind = "root"
	Extend  Kind = "extend"
	Realign Kind = "realign"
	Split   Kind = "split"
)
