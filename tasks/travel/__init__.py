"""Bring code, packages and data to the measuring machine.

Input: a script's or own workloads' folder (`tree`, which excludes secrets), a run's store and hardware.
Output there: `JobSetup` (`job_setup`), with each script's folder, command and environment.

Before a run, `run_code.keep_code` packs trees, and `refusal` says why one must not travel. For each job,
`sending` passes them as inputs of its flow run (up to `MOST_API_BYTES`) or as a link into the bucket. There,
`code_download` unpacks them, `environment` installs packages over the machine's torch, `data` copies data;
all are cached by hash (`cache`). A user's image starts by `image_start` and `image_boot`, a box without our
image by `lane`.

Change what counts as code in `git`, forbidden content in `secrets` and its toml file, size limits in `tree`
and `run_code`, kinds of requirements in `requirements`, the wire format in `packing`. Content of machines and
buckets is untrusted.
"""
