// Package rehearsal is a small policy that can be trained, so that the whole loop runs with no model: a softmax over a
// situation's candidate replies, sampled id by id through the trie of their real token ids. Each id has a true log
// probability and a true gradient. It is a rehearsal, not a language model.
//
// A [Book] lists the replies; [Compile] binds it to a model's tokenizer and chat format; [Policy.At] binds the policy to
// one version of its parameters. The situation is read from the prompt ids alone. Recomputing a log probability under the
// same parameters gives the same bits on the same processor architecture.
//
// The package is pure: random numbers come in as values. It knows nothing of engines, HTTP or trainers. Policies, weights
// and parameters are immutable and safe for concurrent use.
package rehearsal
