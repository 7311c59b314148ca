"""Bring a user's code, its packages and its data to the machine that measures them.

Input: the folder of a script or of own workloads (`tree`, which excludes secrets), and the store and hardware
of a run. Output on the machine: `JobSetup` (`job_setup`), with the folder, command and environment of each
script.

Before a run, `run_code.keep_code` packs trees into the run's folder, and `refusal` says why one must not
travel. For each job, `sending` passes them as inputs of its flow run (up to `MOST_API_BYTES`) or as a link into
the bucket. On the machine, `code_download` unpacks them, `environment` installs packages over the machine's
torch, `data` copies data. All three are cached there by hash (`cache`). A user's image starts by `image_start`
and `image_boot`, a box without our image by `lane`.

Change what counts as code in `git`, forbidden content in `secrets` and its toml file, size limits in `tree` and
`run_code`, kinds of requirements files in `requirements`, the wire format in `packing`. What comes from a
machine or a bucket is untrusted.
"""
