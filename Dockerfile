# The server, the reconciler and the command line. docs/image.md says more.
#
#     docker build --build-arg PIP_INDEX_URL=... -t gatewright .
#
# Serves what is mounted at /etc/gatewright/policies. The root file system may be read-only; a
# certificate of your own (GATEWRIGHT_TLS_CERT, GATEWRIGHT_TLS_KEY) then needs no writable
# directory, and without one /run/gatewright must be writable.

# By tag, so that a build has the fixes of the day. A release gives the digest that it was tried
# with: --build-arg PYTHON_IMAGE=python:3.13-slim-trixie@sha256:...
ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS build
# Any mirror of the package index; without it the index that pip knows.
ARG PIP_INDEX_URL
# Seconds since 1970. The same number gives the same wheel and the same list of parts.
ARG SOURCE_DATE_EPOCH
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# What builds: it stays in this stage.
COPY .ci/constraints-image.txt .ci/
RUN pip install -q --require-hashes --only-binary :all: -r .ci/constraints-image.txt

# What runs: pinned, hashed, wheels only, each for the platform of this stage; without the tests
# that some wheels bring. The environment has no pip, and is copied as a whole.
COPY .ci/constraints-runtime.txt .ci/
RUN pip download -q --no-deps --require-hashes --only-binary :all: -d /wheels \
        -r .ci/constraints-runtime.txt \
    && python -m venv --without-pip /opt/gatewright \
    && pip --python /opt/gatewright/bin/python install -q --no-index --find-links /wheels \
        --no-deps --require-hashes -r .ci/constraints-runtime.txt \
    && find /opt/gatewright -depth \( -name tests -o -name '*_test.*' \) -exec rm -rf {} +

COPY pyproject.toml README.md ./
COPY webhook webhook
# Without a version: there is the one that was just built, and no index.
# hadolint ignore=DL3013
RUN python -m hatchling build -t wheel -d /wheels \
    && pip --python /opt/gatewright/bin/python install -q --no-index --find-links /wheels \
        --no-deps gatewright \
    && mkdir -p /run/gatewright

COPY .ci/sbom.py .ci/
RUN python .ci/sbom.py --environment /opt/gatewright --wheels /wheels \
        --output /usr/share/doc/gatewright/sbom.cdx.json


FROM ${PYTHON_IMAGE}
# Nothing is installed into a running container.
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/* \
        /usr/local/lib/python3*/ensurepip
COPY --from=build /usr/share/doc/gatewright /usr/share/doc/gatewright
COPY --from=build --chown=65532:65532 /run/gatewright /run/gatewright
COPY --from=build /opt/gatewright /opt/gatewright
ENV PATH=/opt/gatewright/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    GATEWRIGHT_LISTEN=:8443 \
    GATEWRIGHT_OPS_LISTEN=:8080 \
    GATEWRIGHT_POLICIES=/etc/gatewright/policies \
    GATEWRIGHT_CERT_DIR=/run/gatewright/certs
ARG PYTHON_IMAGE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gatewright" \
      org.opencontainers.image.description="Admission gate for AI workloads on Kubernetes" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}"
# A number: Kubernetes can't tell from a name that it is not root.
USER 65532:65532
WORKDIR /
EXPOSE 8443 8080
# No HEALTHCHECK: Kubernetes doesn't read it, and asks /healthz and /readyz itself.
ENTRYPOINT ["gatewright"]
CMD ["serve"]
