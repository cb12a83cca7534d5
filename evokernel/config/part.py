"""The base of every part of a config."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from evokernel.config.places import Location


class Part(BaseModel):
    """A part of a config: unknown keys and endless numbers are errors, and what was read does not change."""

    # JSON, which the store keeps settings in, has no infinity and no NaN.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        """Yield the place and the text of each mistake between settings.

        Args:
            raw: the settings as they were written; any of them may be missing, or of a wrong type, which others tell.
        """
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _tell_all(cls, raw: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Tell contradictions and wrong values together: neither hides the other."""
        found: list[InitErrorDetails] = [
            {"type": "value_error", "loc": place, "input": raw, "ctx": {"error": ValueError(text)}}
            for place, text in (cls.contradictions(raw) if isinstance(raw, Mapping) else ())
        ]
        try:
            made = handler(raw)
        except ValidationError as error:
            if not found:
                raise
            found += [_again(each) for each in error.errors()]
        if found:
            raise ValidationError.from_exception_data(cls.__name__, found)
        return made


def meanings(part: type[Part]) -> dict[str, str]:
    """Return the text under each setting in the source; read on demand, for it takes longer than making the class."""
    found = {}
    for each in (each for each in reversed(part.__mro__) if issubclass(each, Part)):
        (made,) = ast.parse(inspect.getsource(each)).body
        assert isinstance(made, ast.ClassDef)
        for setting, text in pairwise(made.body):
            match setting, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[name] = inspect.cleandoc(said)
    return found


def is_given(part: type[BaseModel], raw: Mapping[str, Any], name: str) -> bool:
    """Say whether a setting has another value than its default."""
    default = part.model_fields[name].get_default(call_default_factory=True)
    value = raw.get(name, default)
    return bool((tuple(value) if isinstance(value, list) else value) != default)


def texts_in(value: Any) -> list[str]:
    """Return the texts in a list, or in the keys of a mapping; none for any other value."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple | Mapping) else []


def parts_in(value: Any) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the mappings in a list, each with its position; none for any other value."""
    listed = value if isinstance(value, list | tuple) else ()
    return [(number, each) for number, each in enumerate(listed) if isinstance(each, Mapping)]


def _again(error: Any) -> InitErrorDetails:
    kept: InitErrorDetails = {"type": error["type"], "loc": error["loc"], "input": error["input"]}
    return {**kept, "ctx": error["ctx"]} if "ctx" in error else kept
