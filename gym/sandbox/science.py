"""The Python that programs of a policy find unless another is named: numpy, pandas, scipy and sympy beside the standard
library. Providers with images build it from a Dockerfile; the others make it from `requirements/science.txt`."""

from __future__ import annotations

from typing import Final

from gym.wire.sandbox import Build

PACKAGES: Final = ("numpy", "pandas", "scipy", "sympy")
IMAGE: Final = "python:3.13-slim"
# Their own tests are a third of what the packages weigh.
DOCKERFILE: Final = f"""FROM {IMAGE}
RUN apt-get update -q && apt-get install -y -q --no-install-recommends python3-numpy python3-pandas python3-scipy \\
    python3-sympy && rm -rf /var/lib/apt/lists/* /var/cache/apt /usr/share/doc /usr/share/man && \\
    cd /usr/lib/python3/dist-packages && find pandas scipy sympy -type d -name tests -prune -exec rm -rf {{}} + && \\
    /usr/bin/python3 -c "import numpy, pandas, scipy.optimize, sympy"
ENV PATH=/usr/bin:$PATH
"""
SCIENCE: Final = Build(dockerfile=DOCKERFILE)
