package cli

import "github.com/spf13/cobra"

// verbs lists the commands in the order in which people meet them.
func (a *app) verbs() []*cobra.Command {
	return []*cobra.Command{
		a.quickstart(),
		a.run(), a.sidecar(), a.trial(), a.rehearsal(), a.materialize(), a.verify(), a.explain(), a.inspect(),
		a.encode(), a.decode(), a.render(), a.parse(), a.model(), a.qualify(), a.version(), a.agent(),
	}
}
