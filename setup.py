"""Which packages are installed; everything else is in pyproject.toml.

Here rather than there because the top-level folder `schedules/` is installed as `tcpx/schedules`, and pyproject.toml
cannot say both "find the packages" and "this one lies elsewhere". Folders that hold data alone are packages too: they
have no `__init__.py`, so namespace packages are looked for.
"""

from setuptools import find_namespace_packages, setup

CACHES = ["__pycache__", "*.__pycache__"]

setup(
    packages=[
        *find_namespace_packages(include=["tcpx", "tcpx.*"], exclude=CACHES),
        "tcpx.schedules",
        *(f"tcpx.schedules.{name}" for name in find_namespace_packages("schedules", exclude=CACHES)),
    ],
    package_dir={"tcpx.schedules": "schedules"},
)
