package fault

import "slices"

// The closed table. A code is added here, in alphabetical order within its boundary, and nowhere else.
const (
	BadRequest           Code = "bad_request"
	ContextLength        Code = "context_length_exceeded"
	RequestTooLarge      Code = "request_too_large"
	Unauthorized         Code = "unauthorized"
	UnsupportedField     Code = "unsupported_field"
	UnsupportedPart      Code = "unsupported_content_part"
	UnknownRoute         Code = "unknown_route"
	ClientGone           Code = "client_gone"
	BadFlag              Code = "bad_flag"
	BadConfig            Code = "bad_config"
	FileMissing          Code = "file_missing"
	PortInUse            Code = "port_in_use"
	RunDirBusy           Code = "run_dir_busy"
	Interrupted          Code = "interrupted"
	BadTokenizer         Code = "bad_tokenizer"
	UnsupportedTokenizer Code = "unsupported_tokenizer"
	BadTemplate          Code = "bad_template"
	TemplateRefused      Code = "template_refused"
	UnknownFamily        Code = "unknown_family"
	BadModel             Code = "bad_model"
	EngineUnreachable    Code = "engine_unreachable"
	EngineStatus         Code = "engine_status"
	EngineBusy           Code = "engine_busy"
	EngineCut            Code = "engine_stream_cut"
	EnginePrompt         Code = "engine_prompt_mismatch"
	EngineIDs            Code = "engine_ids_missing"
	EngineLogprobs       Code = "engine_logprobs_bad"
	EngineFinish         Code = "engine_finish_missing"
	EngineProtocol       Code = "engine_protocol"
	SessionSealed        Code = "session_sealed"
	SessionInvariant     Code = "session_invariant"
	ArtifactMagic        Code = "artifact_magic"
	ArtifactVersion      Code = "artifact_version"
	ArtifactChecksum     Code = "artifact_checksum"
	ArtifactTruncated    Code = "artifact_truncated"
	ArtifactChain        Code = "artifact_chain"
	ArtifactRecord       Code = "artifact_record"
	DiskFull             Code = "disk_full"
	StoreFailed          Code = "store_failed"
	TraceBroken          Code = "trace_broken"
	VerifyFailed         Code = "verify_failed"
	SandboxUnsupported   Code = "sandbox_unsupported"
	SandboxFailed        Code = "sandbox_failed"
	HarnessMissing       Code = "harness_missing"
	HarnessFailed        Code = "harness_failed"
	AgentTimeout         Code = "agent_timeout"
	BadTask              Code = "bad_task"
	UnsupportedTask      Code = "unsupported_task"
	VerifierMissing      Code = "verifier_missing"
	VerifierTimeout      Code = "verifier_timeout"
	RewardMissing        Code = "reward_missing"
	RewardEmpty          Code = "reward_empty"
	RewardBad            Code = "reward_bad"
	TrainerMismatch      Code = "trainer_logprob_mismatch"
	TrainerFailed        Code = "trainer_failed"
	CheckpointBad        Code = "checkpoint_bad"
	InternalError        Code = "internal_error"
)

var table = map[Code]Info{
	BadRequest:       {Client, 400, 2, false, "the request cannot be read or breaks the API's rules"},
	ContextLength:    {Client, 400, 2, false, "prompt plus completion would pass the model's context limit"},
	RequestTooLarge:  {Client, 413, 2, false, "the body passes the configured limit"},
	Unauthorized:     {Client, 401, 2, false, "the token is missing, wrong, or belongs to another trajectory"},
	UnsupportedField: {Client, 400, 2, false, "a field asks for what cannot be done exactly; it is named"},
	UnsupportedPart:  {Client, 400, 2, false, "a content part (image, audio, file) that cannot be rendered to ids"},
	UnknownRoute:     {Client, 404, 2, false, "no such path or trajectory"},
	ClientGone:       {Client, 499, 1, true, "the client closed the connection before the answer was whole"},

	BadFlag:     {Config, 400, 2, false, "an unknown flag, or flags that exclude each other"},
	BadConfig:   {Config, 400, 2, false, "an unknown key, a wrong type or an impossible pair; the line is named"},
	FileMissing: {Config, 400, 2, false, "a file or folder named by the user is not there or cannot be read"},
	PortInUse:   {Config, 500, 2, true, "the listen address is taken"},
	RunDirBusy:  {Config, 409, 2, true, "another process holds the run directory"},
	Interrupted: {Config, 503, 130, true, "stopped by a signal; what was finished is kept"},

	BadTokenizer:         {Model, 500, 2, false, "the file is not a tokenizer.json, or contradicts itself"},
	UnsupportedTokenizer: {Model, 500, 2, false, "a construct of tokenizer.json that is not implemented; it is named"},
	BadTemplate:          {Model, 500, 2, false, "the chat template does not compile"},
	TemplateRefused:      {Model, 400, 2, false, "the chat template raised an error for this conversation"},
	UnknownFamily:        {Model, 500, 2, false, "no family reads this chat format"},
	BadModel:             {Model, 500, 2, false, "the model directory lacks a file or its files disagree"},

	EngineUnreachable: {Engine, 503, 1, true, "the engine cannot be reached or gave no answer in time"},
	EngineStatus:      {Engine, 502, 1, false, "the engine refused the request"},
	EngineBusy:        {Engine, 503, 1, true, "the engine asks to be tried later"},
	EngineCut:         {Engine, 502, 1, true, "the engine's stream ended before its answer was whole"},
	EnginePrompt:      {Engine, 502, 1, false, "the engine reports other prompt ids than it was sent"},
	EngineIDs:         {Engine, 502, 1, false, "the engine returned no ids, or ids outside the vocabulary"},
	EngineLogprobs:    {Engine, 502, 1, false, "the engine's log probabilities are missing, misaligned or invalid"},
	EngineFinish:      {Engine, 502, 1, false, "the engine gave no finish reason"},
	EngineProtocol:    {Engine, 502, 1, false, "the engine's answer is not in its wire format"},

	SessionSealed:    {Session, 409, 2, false, "the trajectory is finished and takes no more calls"},
	SessionInvariant: {Session, 500, 1, false, "an invariant of the trajectory would break; nothing was committed"},

	ArtifactMagic:     {Artifact, 500, 1, false, "the file is not a tito artifact"},
	ArtifactVersion:   {Artifact, 500, 1, false, "the artifact is of a newer format version"},
	ArtifactChecksum:  {Artifact, 500, 1, false, "a record's checksum does not match its bytes"},
	ArtifactTruncated: {Artifact, 500, 1, false, "the file ends inside a record, or before its end record"},
	ArtifactChain:     {Artifact, 500, 1, false, "records were removed, reordered or replaced"},
	ArtifactRecord:    {Artifact, 500, 1, false, "a record's content breaks the format"},
	DiskFull:          {Artifact, 507, 1, true, "no space is left for the journal"},
	StoreFailed:       {Artifact, 500, 1, true, "the journal could not be written"},
	TraceBroken:       {Artifact, 500, 1, true, "a trajectory's record cannot be trusted: the rollout is tried again, and has no reward"},
	VerifyFailed:      {Artifact, 500, 1, false, "a claim of the artifact does not hold; the claim is named"},

	SandboxUnsupported: {Sandbox, 500, 2, false, "the sandbox cannot do what the task needs; the need is named"},
	SandboxFailed:      {Sandbox, 500, 1, true, "the sandbox could not be started or broke"},

	HarnessMissing: {Harness, 500, 2, false, "the harness or what it needs is not installed"},
	HarnessFailed:  {Harness, 500, 1, true, "the harness could not be started or broke before it acted"},
	AgentTimeout:   {Harness, 500, 1, false, "the agent ran out of time; the task is verified and scored all the same"},

	BadTask:         {Task, 500, 2, false, "the task's files are missing or break the format"},
	UnsupportedTask: {Task, 500, 2, false, "the task needs what this sandbox or version cannot do; it is named"},

	VerifierMissing: {Verifier, 500, 2, false, "the task has no verifier"},
	VerifierTimeout: {Verifier, 500, 1, false, "the verifier ran out of time"},
	RewardMissing:   {Verifier, 500, 1, false, "the verifier wrote no reward file"},
	RewardEmpty:     {Verifier, 500, 1, false, "the verifier's reward file is empty"},
	RewardBad:       {Verifier, 500, 1, false, "the verifier's reward file cannot be read as a finite reward"},

	TrainerMismatch: {Trainer, 500, 1, false, "a trained token's log probability differs from the policy's own"},
	TrainerFailed:   {Trainer, 500, 1, true, "the trainer failed"},
	CheckpointBad:   {Trainer, 500, 2, false, "the checkpoint cannot be read or belongs to another run"},

	InternalError: {Internal, 500, 1, false, "a bug in tito; please report it"},
}

// Codes lists every code of the table, sorted.
func Codes() []Code {
	cs := make([]Code, 0, len(table))
	for c := range table {
		cs = append(cs, c)
	}
	slices.Sort(cs)
	return cs
}
