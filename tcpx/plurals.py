"""How many of a thing, in words."""


def counted(number: int | str, thing: str) -> str:
    """`1 result`, `2 results`; `1 branch`, `2 branches`; `1 entry`, `2 entries`."""
    if str(number) == "1":
        return f"1 {thing}"
    if thing.endswith("y") and thing[-2] not in "aeiou":
        return f"{number} {thing[:-1]}ies"
    return f"{number} {thing}{'es' if thing.endswith(('s', 'x', 'ch')) else 's'}"
