#!/usr/bin/env bash
# Install the lowest version of every direct dependency that pyproject.toml allows, then run tests with them.
#
#   tests/smoke/lowest.sh [PYTEST ARGUMENT...]
#
# UV_ARGS are passed to uv, for example "--torch-backend cpu". PYTHON names the interpreter.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra options <<<"${UV_ARGS:-}"
unset PYTHONPATH
export VIRTUAL_ENV=$work/venv OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1

"${PYTHON:-python3}" -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet uv
uv=$work/tools/bin/uv
"$uv" venv --quiet --python "${PYTHON:-python3}" "$VIRTUAL_ENV"
extras=(server train postgres s3 onnx pettingzoo mpe2 magent2 openspiel jax)
"$uv" pip compile --quiet "${options[@]}" --resolution lowest-direct --no-deps --no-header --no-annotate \
    "${extras[@]/#/--extra=}" "$checkout/pyproject.toml" --output-file "$work/lowest.txt"
# Tools of the tests come at their newest: nothing depends on their lower bounds.
"$uv" pip install --quiet "${options[@]}" --constraint "$work/lowest.txt" \
    --editable "$checkout[$(IFS=,; echo "${extras[*]}"),test]"
cat "$work/lowest.txt"
cd "$checkout"
# Old versions warn about much that newer ones have mended: here, warnings are no errors.
# Help texts are compared with the layout of the newest typer and rich.
"$VIRTUAL_ENV/bin/pytest" -n 2 -q -o filterwarnings=default --ignore tests/test_help.py "${@:-tests}" -m "not slow and not browser and not gpu"
