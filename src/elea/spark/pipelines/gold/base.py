"""What a kind of gold table is: its options, the columns that name a row, and how rows are made.

A gold table is a function of other tables. `apply` is that function over all rows at once: for
back-fill, candidates, and whoever wants the rows as a DataFrame. `refresh.py` brings a table up to
date with what is new, which costs as much as that, not as much as all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from elea.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from elea.spark.pipelines.gold.rounds import Changes, Round

Options: TypeAlias = Mapping[str, object]
Apply: TypeAlias = "Callable[[SparkSession, Mapping[str, DataFrame], Options], DataFrame]"

REQUIRED: Final = object()


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a kind.

    Args:
        name: In the file.
        parse: From what the file has to what the kind uses; `ValueError` says what is legal.
        help: One line.
        default: As the kind uses it, if it is not given; `REQUIRED` if it has to be.
        defines: Whether a table has to be made anew when it changes.
    """

    name: str
    parse: Callable[[object], object]
    help: str
    default: object = REQUIRED
    defines: bool = True


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of gold table.

    Args:
        name: The key in the file.
        help: One line for docs and errors.
        options: All that may be said of it.
        streaming: Whether `apply` takes streams, and runs as a query of its own. No kind does:
            state is in the table, so that a table and what it was made of never disagree.
        mode: `append`: rows that are there stay; `update`: rows take the place of those with the
            same identity.
        identity: The columns that name a row.
        apply: All rows, from all rows of the sources, in their order.
        refresh: What is to be changed, from what is new.
        sources: How many tables it is made of, at least and at most.
        time: The column by which a range of it can be made anew; None: only all of it.
    """

    name: str
    help: str
    options: tuple[Option, ...]
    mode: str
    identity: Callable[[Options], tuple[str, ...]]
    apply: Apply
    refresh: Callable[[Round], Changes]
    sources: tuple[int, int] = (1, 1)
    time: str | None = None
    streaming: bool = field(default=False)

    def parsed(self, given: object, where: str = "") -> dict[str, object]:
        """The options, checked.

        Args:
            given: What the file has: names and values; None is none.
            where: What the file calls this place, for errors: `tables.imu_1s.window`.

        Raises:
            ConfigError: one is unknown, missing, or not legal.
        """
        found, errors = self.examined(given, where)
        if errors:
            raise errors[0]
        return found

    def examined(
        self, given: object, where: str = ""
    ) -> tuple[dict[str, object], list[ConfigError]]:
        """The options as far as they are legal, and all that is wrong with the others."""
        where = where or self.name
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            reason = f"saw {_shown(given)}; legal are {self._names()}"
            return {}, [ConfigError(where, reason)]
        by_name = {option.name: option for option in self.options}
        errors = [
            ConfigError(f"{where}.{name}", f"is unknown; legal are {self._names()}")
            for name in given
            if name not in by_name
        ]
        found: dict[str, object] = {}
        for name, option in by_name.items():
            if name in given:
                try:
                    found[name] = option.parse(given[name])
                except ValueError as error:
                    reason = f"saw {_shown(given[name])}; {error}"
                    errors.append(ConfigError(f"{where}.{name}", reason))
            elif option.default is REQUIRED:
                errors.append(ConfigError(f"{where}.{name}", f"is missing: {option.help}"))
            else:
                found[name] = option.default
        return found, errors

    def check_sources(self, names: Sequence[str], where: str = "") -> None:
        """Refuse another number of sources than it takes.

        Raises:
            ConfigError: there are too few or too many.
        """
        low, high = self.sources
        if not low <= len(names) <= high:
            legal = str(low) if low == high else f"{low} to {high}"
            reason = f"saw {', '.join(names) or 'none'}; {self.name} takes {legal}"
            raise ConfigError(where or "from", reason)

    def _names(self) -> str:
        return ", ".join(option.name for option in self.options) or "none"


def _shown(value: object) -> str:
    return f"{value!a}"[:80]
