"""Names of knobs: the keys that set them, and the shortest ones that tell them apart."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from tcpx.records import frozen

BEYOND = "!"
"""Behind the name of a param: its value need not be in the domain that the knob declares."""
_BOUNDARIES = "/.:"


def reaches(key: str, path: str) -> bool:
    """Whether a key of `params` holds for the knob of a path: a part of it from some name to its end, or a glob."""
    bare = key.removesuffix(BEYOND)
    within = path if bare.startswith("@") else path.rpartition(":")[2]
    return is_suffix(bare, path) or fnmatchcase(within, bare)


def is_suffix(key: str, path: str) -> bool:
    """Whether a path ends with a key that begins where a name of it does: `mc` and `packed_gemm.mc` are of
    `mlp/fc1/packed_gemm.mc`."""
    return path == key or (path.endswith(key) and path[len(path) - len(key) - 1] in _BOUNDARIES)


def best_key(keys: Sequence[str], path: str) -> str | None:
    """The one of some keys that reach a knob, in order, that holds: its path goes before the end of it, a longer end
    first, that before a glob, a glob before its name alone; of two globs the last."""
    full = (path, path.rpartition(":")[2])

    def rank(place: int) -> tuple[bool, int, bool, int]:
        bare = keys[place].removesuffix(BEYOND)
        is_name = bare == last_name(path)
        return bare in full, len(bare) if is_suffix(bare, path) and not is_name else 0, not is_name, place

    return keys[max(range(len(keys)), key=rank)] if keys else None


def last_name(path: str) -> str:
    """The name of a knob in its path."""
    return path.rpartition(".")[2]


def _suffixes(path: str) -> Iterator[str]:
    """The ends of a path that begin where a name does, the shortest first."""
    first = len(path) - len(last_name(path))
    yield from (path[k:] for k in range(first, 0, -1) if path[k - 1] in _BOUNDARIES)
    yield path


@frozen
class KnobNames:
    """The shortest names of knobs that nothing but their own path ends with; paths that are not known are their own."""

    names: Mapping[str, str]

    @staticmethod
    def of(paths: Iterable[str]) -> "KnobNames":
        """Those of some knobs among each other."""
        known = list(dict.fromkeys(paths))
        count = Counter(suffix for path in known for suffix in _suffixes(path))
        return KnobNames({path: next((s for s in _suffixes(path) if count[s] == 1), path) for path in known})

    def __call__(self, path: str) -> str:
        """The name of a path; `!` behind it stays there."""
        bare = path.removesuffix(BEYOND)
        return self.names.get(bare, bare) + path[len(bare) :]
