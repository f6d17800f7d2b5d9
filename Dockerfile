# The server and the command line. Build with any mirror of the package index:
#
#     docker build --build-arg PIP_INDEX_URL=... -t gatewright .
#
# Serves what is mounted at /etc/gatewright/policies. The root file system may be read-only; a
# certificate of your own (GATEWRIGHT_TLS_CERT, GATEWRIGHT_TLS_KEY) then needs no writable
# directory, and without one /run/gatewright must be writable.

FROM python:3.13-slim AS build
ARG PIP_INDEX_URL
ARG UV_DEFAULT_INDEX=$PIP_INDEX_URL
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore \
    UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1
WORKDIR /src
COPY .ci/constraints.txt .ci/constraints-runtime.txt .ci/

# The installer, out of the pinned file of development.
RUN sed -n '/^uv==/,/[^\\]$/p' .ci/constraints.txt > uv.txt \
    && pip install -q --require-hashes --only-binary :all: -r uv.txt

# What runs: pinned, hashed, wheels only. The environment has no pip, and is copied as a whole.
RUN uv venv -q /opt/gatewright \
    && uv pip install -q --python /opt/gatewright/bin/python \
        --require-hashes --no-build -r .ci/constraints-runtime.txt

COPY pyproject.toml README.md ./
COPY webhook webhook
RUN uv build -q --wheel --build-constraints .ci/constraints.txt --require-hashes -o /dist \
    && uv pip install -q --python /opt/gatewright/bin/python --no-deps --no-index /dist/*.whl \
    && mkdir -p /run/gatewright


FROM python:3.13-slim
COPY --from=build /opt/gatewright /opt/gatewright
COPY --from=build --chown=65532:65532 /run/gatewright /run/gatewright
ENV PATH=/opt/gatewright/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    GATEWRIGHT_LISTEN=:8443 \
    GATEWRIGHT_OPS_LISTEN=:8080 \
    GATEWRIGHT_POLICIES=/etc/gatewright/policies \
    GATEWRIGHT_CERT_DIR=/run/gatewright/certs
# A number: Kubernetes can't tell from a name that it is not root.
USER 65532:65532
WORKDIR /
EXPOSE 8443 8080
ENTRYPOINT ["gatewright"]
CMD ["serve"]
