# Two images: `league` is the server, without torch; `trainer` adds what learning and playing need.
#
#   docker build --target league -t echelon-league .
#   docker build --target trainer -t echelon-trainer .
#   docker build --target trainer -t echelon-trainer-cpu \
#       --build-arg PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu .      # a smaller torch, without CUDA
#
# Libraries come before the code, so that a change of the code installs none of them anew.

FROM python:3.11.14-slim-bookworm AS base
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /srv/echelon
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./

FROM base AS wheel
COPY arena arena
COPY league league
COPY trainer trainer
COPY migrations migrations
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM base AS server
RUN pip install -c constraints.txt '.[server,postgres,s3]' \
 && useradd --uid 10001 --create-home league \
 && install -d -o league -g league /var/lib/league
ENV LEAGUE_HOME=/var/lib/league
VOLUME /var/lib/league

FROM server AS learner
ARG PIP_EXTRA_INDEX_URL=""
RUN pip install -c constraints.txt '.[train,onnx]' \
 && install -d -o league -g league /var/lib/trainer
ENV OMP_NUM_THREADS=1 WARP_CACHE_PATH=/var/lib/trainer/.warp
VOLUME /var/lib/trainer

FROM learner AS trainer
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-deps --force-reinstall /wheels/*.whl
USER 10001
HEALTHCHECK NONE
CMD ["trainer", "run", "--run", "/var/lib/trainer/main"]

FROM server AS league
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-deps --force-reinstall /wheels/*.whl
USER 10001
ENV LEAGUE_HOST=0.0.0.0 LEAGUE_PORT=8000
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=5)"]
CMD ["league", "serve"]
