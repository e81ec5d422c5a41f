# One image for the coordinator and all parties. It holds programs only: keys, models,
# ledgers and results are made at run time and live in volumes.
ARG BASE=python:3.11-slim

# Dependencies in a layer of their own: it changes only with a pinned version.
FROM ${BASE} AS dependencies
RUN command -v strip || { apt-get update && apt-get install -y --no-install-recommends binutils; }
WORKDIR /source
COPY pyproject.toml constraints.txt ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb')); \
print(*project['project']['dependencies'], sep='\n', file=open('needed.txt', 'w')); \
print(*project['build-system']['requires'], sep='\n', file=open('builder.txt', 'w'))"
RUN python -m venv /build && /build/bin/pip install --no-cache-dir -r builder.txt wheel
# The library of OpenDP is 275 MB, of which 107 are symbols that only a debugger reads.
RUN python -m venv --without-pip /venv \
    && /build/bin/pip --python /venv/bin/python install --no-cache-dir -c constraints.txt -r needed.txt \
    && find /venv -type d -name tests -prune -exec rm -r {} + \
    && find /venv -name 'opendp*.so' -exec strip --strip-unneeded {} +

FROM dependencies AS package
COPY README.md LICENSE ./
COPY protocol protocol
COPY party party
COPY coordinator coordinator
RUN /build/bin/pip wheel --no-build-isolation --no-deps --wheel-dir /wheel . \
    && /build/bin/pip --python /venv/bin/python install --no-index --no-deps --prefix /own /wheel/*

FROM ${BASE}
# Nothing is installed at run time, so pip is removed.
RUN find / -xdev -type d \( -name pip -o -name 'pip-*' -o -name ensurepip -o -name setuptools \) \
        -path '*/python3*' -prune -exec rm -r {} + \
    && rm -f /usr/bin/pip* /usr/local/bin/pip*
# A new volume gets the owner of the folder on which it is mounted.
RUN useradd --uid 1000 --no-create-home sotto \
    && install -d -m 700 -o sotto -g sotto /private /agreed /sent \
    && install -d -m 700 -o sotto -g sotto $(printf '/sent/party%s ' 1 2 3 4 5)
WORKDIR /sotto
COPY --from=dependencies /venv /venv
COPY --from=package /own /venv
COPY scripts scripts
# The problems are small: one thread is fastest.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
USER sotto
