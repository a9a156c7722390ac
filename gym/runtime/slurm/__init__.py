"""The Slurm runtime: a stack as one job, its servers as processes of the job's nodes."""
