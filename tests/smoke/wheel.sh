#!/usr/bin/env bash
# Build the wheel, install it outside the checkout, run a league until its first rating period closes, and query that
# from a second environment, which has the client alone. PYTHON names the interpreter of both environments.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
league=

clean() {
    if [ -n "$league" ] && kill -0 "$league" 2>/dev/null; then
        kill "$league"
        wait "$league" || true
    fi
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

step() { echo "==> ${SECONDS} s: $*"; }

unset PYTHONPATH LEAGUE_URL LEAGUE_TOKEN LEAGUE_TOKEN_FILE LEAGUE_DATABASE_URL
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PIP_NO_COMPILE=1 OMP_NUM_THREADS=1 LEAGUE_HOME=$work/home
constraints=$checkout/constraints.txt
cd "$work"

step "build the wheel"
mkdir source
(cd "$checkout" && cp -R arena league trainer migrations pyproject.toml setup.py README.md LICENSE "$work/source")
"$python" -m venv client
client/bin/pip wheel --no-deps --wheel-dir wheels ./source
rm -rf source
wheel=$(echo "$PWD"/wheels/*.whl)

step "install the client alone"
client/bin/pip install -c "$constraints" "$wheel"

step "install server and trainer"
"$python" -m venv full
torch=$(sed -n 's/^torch==\([^ ;]*\).*/\1/p' "$constraints")
full/bin/pip install -c "$constraints" "torch==$torch"
full/bin/pip install -c "$constraints" "$wheel[server,train]"

step "start a league"
full/bin/league up --port 0 >up.log 2>&1 &
league=$!

step "query it with the client"
if ! client/bin/python "$checkout/tests/smoke/query.py" "$league" "$work/home/league.url"; then
    cat up.log >&2
    exit 1
fi

step "stop it"
kill -INT "$league"
wait "$league"
league=
step "done"
