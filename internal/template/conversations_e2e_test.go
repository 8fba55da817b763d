//go:build e2e

package template

import "strings"

// tools are definitions with what tends to break: key order, numbers, nesting, characters that HTML would escape.
const tools = `[{"type":"function","function":{"name":"bash","description":"Run a command & read <its> \"output\"","parameters":{"type":"object","required":["command"],"properties":{"timeout":{"type":"number","default":1.0,"maximum":1e7},"command":{"type":"string","description":"naïve – 日本語"}}}}},` +
	`{"type":"function","function":{"name":"edit","parameters":{"properties":{"z":{"type":"integer","minimum":-0,"maximum":123456789012345678901234567890},"a":{"type":["string","null"],"enum":["x",null,true,0.10]}},"type":"object","additionalProperties":false}}}]`

// describedTools have a description everywhere, which some templates insist on.
const describedTools = `[{"type":"function","function":{"name":"bash","description":"Run a command","parameters":{"type":"object","required":["command"],"properties":{"command":{"type":"string","description":"what to run"},"timeout":{"type":"number","description":"seconds","default":1.0},"shell":{"type":"string","description":"which","enum":["sh","bash"],"default":"sh"},"env":{"type":"array","description":"pairs","items":{"type":"string"}},"opts":{"type":"object","description":"more","properties":{"quiet":{"type":"boolean","description":"say less"}}}}}}},` +
	`{"type":"function","function":{"name":"now","description":"The time","parameters":{"type":"object","properties":{}}}}]`

// conversations are message lists that templates treat differently.
var conversations = []string{
	`[{"role":"user","content":"Hello"}]`,
	`[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}]`,
	`[{"role":"system","content":""},{"role":"user","content":""}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`,
	`[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"\n\n b \n"},{"role":"user","content":" c\n"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","content":"<think>\nhm\n</think>\n\nb"},{"role":"user","content":"c"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","content":"<think>\nhm\n</think>\n\nb"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","reasoning_content":"I think","content":"b"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","reasoning_content":"","content":"b"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","reasoning_content":null,"content":"b"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","reasoning_content":"\nI think\n\n","content":"b"},{"role":"user","content":"c"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","reasoning":"I think","content":"b"},{"role":"user","content":"c"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":{"command":"ls -la"}}}]},{"role":"tool","tool_call_id":"call_1","name":"bash","content":"x\ny"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\": \"ls -la\"}"}}]},{"role":"tool","tool_call_id":"call_1","name":"bash","content":"x\ny"},{"role":"assistant","content":"done"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":{"command":"ls"}}}]},{"role":"tool","tool_call_id":"call_1","content":"x"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":{"command":"ls"}}}]},{"role":"tool","tool_call_id":"call_1","content":"x"}]`,
	`[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","reasoning_content":"plan","content":"two","tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":{"z":1.0,"a":1e7,"big":123456789012345678901234567890,"neg":-0.0,"e":1E-7,"n":null,"t":true,"nested":{"b":[1,2.50,{"k":"v"}],"a":{}}}}},{"id":"call_2","type":"function","function":{"name":"edit","arguments":{"text":"<a href=\"x\">&amp;</a>\n\ttab 😀 é \u2028 \u0001 \\ /","empty":""}}}]},{"role":"tool","tool_call_id":"call_1","content":"one"},{"role":"tool","tool_call_id":"call_2","content":"two"},{"role":"assistant","content":"ok","reasoning_content":"so"},{"role":"user","content":"more"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","reasoning_content":"r1","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":{}}}]},{"role":"tool","tool_call_id":"c1","content":""},{"role":"assistant","reasoning_content":"r2","content":"","tool_calls":[{"id":"c2","type":"function","function":{"name":"bash","arguments":{"command":"x"}}}]},{"role":"tool","tool_call_id":"c2","content":"out"}]`,
	`[{"role":"user","content":"<tool_response>\nx\n</tool_response>"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`,
	`[{"role":"user","content":"日本語 😀 ñ \u0000 \u200b ﷽"},{"role":"assistant","content":"«ok»"}]`,
	`[{"role":"user","content":"one"},{"role":"user","content":"two"},{"role":"assistant","content":"x"},{"role":"assistant","content":"y"}]`,
	`[{"role":"user","content":"a"},{"role":"system","content":"late"},{"role":"user","content":"b"}]`,
	`[{"role":"developer","content":"dev"},{"role":"user","content":"b"}]`,
	`[{"role":"user","content":[{"type":"text","text":"part one"},{"type":"text","text":"part two"}]}]`,
	`[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:x"}}]},{"role":"assistant","content":[{"type":"text","text":"seen"}]}]`,
	`[{"role":"user","content":null}]`,
	`[{"role":"user"}]`,
	`[{"role":"tool","content":"orphan"},{"role":"user","content":"b"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[]}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":null},{"role":"user","content":"c"}]`,
	`[{"role":"user","content":"a"},{"role":"assistant","content":"t","tool_calls":[{"name":"bash","arguments":{"command":"x"}}]},{"role":"tool","content":"r"}]`,
	`[{"role":"assistant","content":"first"},{"role":"user","content":"b"}]`,
	`[{"content":"no role"}]`,
	`[]`,
}

// settings are further template variables, as JSON members.
var settings = []string{
	`"add_generation_prompt":true`,
	`"add_generation_prompt":false`,
	`"add_generation_prompt":true,"enable_thinking":false`,
	`"add_generation_prompt":true,"enable_thinking":true`,
}

// eachCase calls f with every conversation under every setting, without tools and with either list.
func eachCase(f func(messages, toolList, rest string)) {
	for _, m := range conversations {
		for _, s := range settings {
			f(m, "null", s)
			f(m, tools, s)
			f(m, describedTools, s)
		}
	}
}

// longConversation is one with n rounds of two parallel calls.
func longConversation(n int) string {
	var b strings.Builder
	b.WriteString(`[{"role":"system","content":"You are an agent."},{"role":"user","content":"Fix the tests."}`)
	for range n {
		b.WriteString(`,{"role":"assistant","reasoning_content":"Let me look at the files first.","content":"Looking.","tool_calls":[` +
			`{"id":"c1","type":"function","function":{"name":"bash","arguments":{"command":"ls -la","timeout":60000.0}}},` +
			`{"id":"c2","type":"function","function":{"name":"edit","arguments":{"path":"a.go","old":"x","new":"y"}}}]},` +
			`{"role":"tool","tool_call_id":"c1","content":"` + strings.Repeat(`total 12\n-rw-r--r-- 1 root root 4096 a.go\n`, 10) + `"},` +
			`{"role":"tool","tool_call_id":"c2","content":"ok"}`)
	}
	b.WriteString(`]`)
	return b.String()
}
