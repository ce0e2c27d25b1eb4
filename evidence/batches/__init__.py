"""Does a training keep its course when batches become larger? `scale_batch` against the usual rules."""
