"""Does a training keep its course when batches become larger? By `scale_batch` and by `AutoBatch`, on 14 networks."""
