"""Does the paper's experiment section hold up? Its two experiments repeated, with a verdict on every sentence.

`experiments` declares them; `run.reproduce` asks a `Design` for jobs, runs them, keeps every finished part, and returns
`Results`; `summary.summary` says what they amount to.
"""
