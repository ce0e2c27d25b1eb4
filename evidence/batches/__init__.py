"""Does a training keep its course when batches become larger, by `scale_batch` and by `AutoBatch`?"""
