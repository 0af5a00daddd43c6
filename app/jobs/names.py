"""Names of queues and workflows in the database; importable without the code that runs them."""

JOBS_QUEUE = "bounds"
"""Queue of jobs that wait for a child of the lane. The first of these computed bounds; databases keep the name."""

BATCHES = "batches"
"""Queue of batches, which wait for their chunks."""

CHUNKS = "chunks"
"""Queue of chunks, which wait for a child of the lane."""

WORKFLOW = "run_job"

BATCH_WORKFLOW = "run_batch"

JOBS = (WORKFLOW, BATCH_WORKFLOW)
"""Workflows that are jobs; chunks are parts of a job."""

APPLICATION = "recourse"

VERSION = "jobs-1"
"""Raised by hand when stored jobs can no longer be resumed: DBOS recovers only jobs of its own version."""

STORE = "job store"
"""In sentences for people."""

LOST = "The job store cannot be reached."
"""Where nothing else is known."""
