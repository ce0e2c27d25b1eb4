"""Does variational inference work without tuning? Real posteriors, of which half had no part in any choice."""
