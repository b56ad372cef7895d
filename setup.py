"""Which packages are installed; everything else is in pyproject.toml.

Here rather than there because the top-level folder `schedules/` is installed as `tcpx/schedules`, and pyproject.toml
cannot say both "find the packages" and "this one lies elsewhere".
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["tcpx", "tcpx.*"]), "tcpx.schedules"],
    package_dir={"tcpx.schedules": "schedules"},
)
