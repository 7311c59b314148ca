# An image with a frozen reference beside what it measures, for the controls of nights: packages and workloads of an
# earlier image of the same base, which is named by its digest. `gridbench image build --reference` builds it.
ARG IMAGE
ARG REFERENCE
FROM ${REFERENCE} AS reference
FROM ${IMAGE}
COPY --from=reference /opt/venv /opt/reference
COPY --from=reference /opt/gridbench/workloads /opt/reference/frozen/workloads
# Its Python finds its own workloads by a path file, and says its id: one that can't is no reference.
USER root
RUN place="$(/opt/reference/bin/python -P -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    && echo /opt/reference/frozen > "${place}/frozen.pth" \
    && echo '{}' > /opt/reference/frozen/workloads/frozen.json \
    && env -u PYTHONPATH /opt/reference/bin/python -P -c \
           'from workloads.harness.probes.frozen import reference_id; print("reference", reference_id())'
USER gridbench
ARG REFERENCE
LABEL dev.gridbench.reference="${REFERENCE}"
