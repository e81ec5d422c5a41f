# One image for the coordinator and all parties. It holds programs only: keys, models,
# ledgers and results are made at run time and live in volumes.
ARG BASE=python:3.11-slim

# Dependencies in a layer of their own: it changes only with a pinned version.
FROM ${BASE} AS dependencies
RUN command -v strip || { apt-get update && apt-get install -y --no-install-recommends binutils; }
WORKDIR /source
COPY pyproject.toml requirements.lock ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb')); \
print(*project['build-system']['requires'], sep='\n', file=open('builder.txt', 'w'))"
RUN python -m venv /build && /build/bin/pip install --no-cache-dir -r builder.txt wheel
# The library of OpenDP is 275 MB, of which 107 are symbols that only a debugger reads.
RUN python -m venv --without-pip /venv \
    && /build/bin/pip --python /venv/bin/python install --no-cache-dir --require-hashes -r requirements.lock \
    && find /venv -type d -name tests -prune -exec rm -r {} + \
    && find /venv -name 'opendp*.so' -exec strip --strip-unneeded {} +

FROM dependencies AS built
COPY README.md LICENSE ./
COPY protocol protocol
COPY party party
COPY coordinator coordinator
RUN /build/bin/pip wheel --no-build-isolation --no-deps --wheel-dir /wheel .

# `scripts/release --image` puts the folder of the release in the place of this stage: then the
# image has the wheel that was signed, and its list of packages (SBOM).
FROM scratch AS wheel
COPY --from=built /wheel /

FROM dependencies AS package
COPY --from=wheel / /wheel
RUN mkdir -p /own/share/sotto \
    && find /wheel -name '*.cdx.json' -exec cp {} /own/share/sotto/ \; \
    && /build/bin/pip --python /venv/bin/python install --no-index --no-deps --prefix /own /wheel/*.whl

FROM ${BASE}
# Nothing is installed at run time, so pip is removed, and all that the base image has to build packages.
RUN find / -xdev -path '*/python3*' \( -name pip -o -name 'pip-*' -o -name ensurepip \
        -o -name setuptools -o -name 'setuptools-*' -o -name pkg_resources -o -name _distutils_hack \
        -o -name distutils-precedence.pth -o -name wheel -o -name 'wheel-*' \) -prune -exec rm -r {} + \
    && rm -f /usr/bin/pip* /usr/local/bin/pip* /usr/local/bin/wheel
# A new volume gets the mode of the folder on which it is mounted. Any user number may write there
# (`OWNER` in docker-compose.yml), because each volume is mounted only where it belongs.
RUN useradd --uid 1000 --no-create-home sotto \
    && install -d -m 1777 /private /agreed /results /sent \
    && install -d -m 1777 /sent/office /sent/depot $(printf '/sent/party%s ' 1 2 3 4 5)
WORKDIR /sotto
COPY --from=dependencies /venv /venv
COPY --from=package /own /venv
# Only what docker-compose.yml runs.
COPY scripts/__init__.py scripts/compose scripts/
COPY scripts/lab/__init__.py scripts/lab/
COPY scripts/lab/common scripts/lab/common
# The problems are small: one thread is fastest.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
USER sotto
