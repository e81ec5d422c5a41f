# One image for the coordinator and all parties. It holds programs only: keys, models,
# ledgers and results are made at run time and live in volumes.
ARG BASE=python:3.11-slim

FROM ${BASE} AS installed
WORKDIR /source
COPY pyproject.toml constraints.txt README.md ./
COPY protocol protocol
COPY party party
COPY coordinator coordinator
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir -c constraints.txt .

FROM ${BASE}
# A new volume takes the owner of the folder that it is mounted on.
RUN useradd --uid 1000 --no-create-home sotto \
    && install -d -m 700 -o sotto -g sotto /private /public
WORKDIR /sotto
COPY --from=installed /venv /venv
COPY scripts scripts
# The problems are small: more threads than one only get in each other's way.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
USER sotto
