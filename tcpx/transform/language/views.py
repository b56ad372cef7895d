"""Views: names for parts of an operation. Each role is a function of the operation, which `x.role` calls."""

from tcpx.records import frozen
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.loader import Unit


@frozen
class ViewOf:
    """A view and the file it stands in."""

    unit: Unit
    view: ast.View

    @property
    def base(self) -> "ViewOf | None":
        """The view that this one adds roles to, which is declared before it."""
        found = view_of(self.view.params[0].type, self.unit) if self.view.params else None
        declared = list(self.unit.views)
        if found is None or found.unit is not self.unit:
            return found
        return found if declared.index(found.view.name) < declared.index(self.view.name) else None

    @property
    def names(self) -> tuple[str, ...]:
        """All roles, those of its base first."""
        base = self.base
        return (*(base.names if base is not None else ()), *self.unit.roles[self.view.name])

    def role(self, name: str) -> "RoleOf | None":
        """The function behind a role, of this view or of its base; None if it has none of this name."""
        found = self.unit.roles[self.view.name].get(name)
        if found is not None:
            return RoleOf(self, found)
        base = self.base
        return base.role(name) if base is not None else None


@frozen
class RoleOf:
    """A role of a view."""

    view: ViewOf
    function: ast.Function


def view_of(type_: ast.TypeOf, unit: Unit) -> ViewOf | None:
    """The view that a type names, of this file or of an import (`g.product`); None for any other type."""
    alias, dot, name = type_.name.rpartition(".")
    owner = unit.imports.get(alias) if dot else unit
    return ViewOf(owner, owner.views[name]) if owner is not None and name in owner.views else None


def without_view(type_: ast.TypeOf, unit: Unit) -> ast.TypeOf:
    """The type of the operations that a view is about; any other type is what it is."""
    view = view_of(type_, unit)
    if view is None or not view.view.params:
        return type_
    base = view.view.params[0].type
    return base if view.base is None else without_view(base, view.unit)
