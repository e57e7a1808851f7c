"""Take marks through the pipeline, one file per step: resolve, fence, claim, delete, settle."""
