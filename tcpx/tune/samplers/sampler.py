"""What a sampler is, and the ones by name."""

import random
from importlib.util import find_spec
from typing import Final, Protocol

import tcpx
from tcpx.tune.places import suggestion
from tcpx.tune.samplers.evolutionary import EvolutionarySampler
from tcpx.tune.samplers.grid import GridSampler
from tcpx.tune.samplers.uniform import RandomSampler
from tcpx.tune.space import Point, Space

CORE: Final = ("grid", "random", "evolutionary")
OPTUNA: Final = ("tpe", "cma-es")


class Sampler(Protocol):
    """Proposes points and hears what came of them."""

    def ask(self) -> Point | None:
        """A point to try, maybe one that was proposed before; None where there are no more."""
        ...

    def tell(self, point: Point, cost: float | None) -> None:
        """What came of any point, also one that it did not propose: its time, relative to others; None where it has
        none."""
        ...


def default_sampler() -> str:
    """`tpe` where Optuna is installed, else `evolutionary`."""
    return "tpe" if find_spec("optuna") is not None else "evolutionary"


def make_sampler(name: str, space: Space, seed: int) -> Sampler:
    """The sampler of this name. Raises ArgumentError for one that there is not, that needs an extra which is not
    installed, or that the space is not for."""
    match name:
        case "grid":
            return GridSampler(space)
        case "random":
            return RandomSampler(space, random.Random(seed))
        case "evolutionary":
            return EvolutionarySampler(space, random.Random(seed))
        case "tpe" | "cma-es":
            return _of_optuna(name, space, seed)
        case _:
            known = (*CORE, *OPTUNA)
            raise tcpx.ArgumentError(
                tcpx.Diagnostic(
                    f"there is no sampler `{name}`", required=", ".join(known), found=name, fix=suggestion(name, known)
                )
            )


def _of_optuna(name: str, space: Space, seed: int) -> Sampler:
    if name == "cma-es" and space.is_conditional:
        first = next(variable for variable in space.variables if variable.is_conditional)
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                "cma-es is for spaces where every knob always counts and has one domain",
                required="a space without `tune`, `if` on knobs, and domains that depend on knobs",
                found=f"`{first.path}`, which depends on other knobs",
                fix="use tpe, evolutionary or random",
            )
        )
    modules = ("optuna", "cmaes") if name == "cma-es" else ("optuna",)
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        packages = " ".join(["'tcpx[tune]'", *(module for module in missing if module != "optuna")])
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                f"the sampler {name} needs a package that is not installed",
                required=", ".join(modules),
                found=f"no module {missing[0]}",
                fix=f"pip install {packages}, or use one of {', '.join(CORE)}",
            )
        )
    from tcpx.tune.samplers.with_optuna import OptunaSampler

    return OptunaSampler(space, name, seed)
