# Two images: `league` is the server, without torch; `trainer` adds what learning needs.
#
#   docker build --target league -t echelon-league .
#   docker build --target trainer -t echelon-trainer .

FROM python:3.11.14-slim-bookworm AS league
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /srv/echelon
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY arena arena
COPY league league
COPY trainer trainer
COPY migrations migrations
RUN pip install -c constraints.txt '.[postgres,s3]' \
 && useradd --create-home league \
 && install -d -o league -g league /var/lib/league
USER league
ENV LEAGUE_HOME=/var/lib/league LEAGUE_HOST=0.0.0.0 LEAGUE_PORT=8000
VOLUME /var/lib/league
EXPOSE 8000
HEALTHCHECK --interval=10s --start-period=30s \
    CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=5)"
CMD ["league", "serve"]

FROM league AS trainer
USER root
RUN pip install -c constraints.txt '.[train]' \
 && install -d -o league -g league /var/lib/trainer
USER league
ENV OMP_NUM_THREADS=1
VOLUME /var/lib/trainer
HEALTHCHECK NONE
CMD ["trainer", "run", "--run", "/var/lib/trainer/main"]
