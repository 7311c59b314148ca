# An image that has a user's code and its packages already, so that its lanes fetch and install nothing: both lie by
# their hash where lanes look for them. `gridbench image build --code FOLDER` builds it.
ARG IMAGE
FROM ${IMAGE}
ARG CODE
ARG REQUIREMENTS=
USER root
RUN --mount=type=bind,source=code,target=/code \
    if [ -s /code/ca.crt ]; then export SSL_CERT_FILE=/code/ca.crt; fi \
    && GRIDBENCH_KEPT=/opt/gridbench-kept UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 \
       python -m tasks.travel.image_cache /code "${CODE}" ${REQUIREMENTS}
USER gridbench
LABEL dev.gridbench.code="${CODE}"
