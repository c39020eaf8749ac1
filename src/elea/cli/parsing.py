"""The argument parser of every verb: errors with the usage of the verb that they are about."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from elea.errors import ConfigError, EleaError, InvalidValueError, MissingDependencyError

if TYPE_CHECKING:
    from elea.config.config import Config


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that refuses unknown arguments itself, wherever it stands.

    argparse leaves that to the outermost parser, whose usage says nothing about the verb. Parsers
    of sub-verbs are of this class, too: argparse makes them of the class of their parent.
    """

    _is_printing = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        # `--since -10m` is a value as `-10` is one; Python 3.14 has it so by itself.
        self._negative_number_matcher = _NEGATIVE
        self._keys: list[tuple[argparse.Action, tuple[str, ...]]] = []

    def parse_known_args(  # type: ignore[override]  # one of its overloads is enough
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; an argument that is not known ends the program."""
        given = self._in_order(sys.argv[1:] if args is None else list(args))
        self._refuse_early(given)
        actions = self._actions
        # With -k KEY the first argument is not the key: `put -k a on` has a payload.
        replaced = {
            argument
            for argument, flags in self._keys
            if any(one.partition("=")[0] in flags for one in given)
        }
        self._actions = [one for one in actions if one not in replaced]
        try:
            found, unknown = super().parse_known_args(given, namespace)
        finally:
            self._actions = actions
        if unknown:
            self._refuse(unknown)
        return found, unknown

    def replace_by(self, argument: argparse.Action, flags: Sequence[str]) -> None:
        """Expect no `argument` where one of `flags` is given in its place."""
        self._keys.append((argument, tuple(flags)))

    def _in_order(self, given: list[str]) -> list[str]:
        """Arguments with the options first, where a key may be left out.

        argparse takes an argument that may be left out as left out when an option comes before it:
        in `put KEY --encoding NAME PAYLOAD` the payload would be missing.
        """
        if not self._keys:
            return given
        options, rest = list[str](), list[str]()
        left = iter(given)
        for one in left:
            if one == "--":
                return [*options, "--", *rest, *left]
            if not one.startswith("-") or one == "-":
                rest.append(one)
                continue
            name, is_assigned, _ = one.partition("=")
            action = self._option_string_actions.get(name)
            if action is None or action.nargs not in (None, 0):
                return given  # argparse knows what to make of it
            options.append(one)
            if action.nargs is None and not is_assigned:
                value = next(left, None)
                if value is None:  # it would take the key as its value
                    return given
                options.append(value)
        return [*options, *rest]

    def _refuse_early(self, given: Sequence[str]) -> None:
        """Refuse an option of a sub-verb before it: its value would be taken for the sub-verb."""
        verbs = self.verbs()
        name = given[0].partition("=")[0] if given else ""
        if not verbs or not name.startswith("-") or name in self._option_string_actions:
            return
        named = next((one for one in given if one in verbs), next(iter(verbs)))
        if any(name in one.option_strings for one in verbs[named].options()):
            self.error(f"{name} comes after the verb: {self.prog} {named} {name} ...")

    def format_usage(self) -> str:
        """The usage, as wide as the terminal."""
        self._is_printing = True
        return super().format_usage()

    def format_help(self) -> str:
        """The help, as wide as the terminal."""
        self._is_printing = True
        return super().format_help()

    def _get_formatter(self) -> argparse.HelpFormatter:
        # argparse checks each argument with a formatter. How wide the terminal is does not matter
        # then, and finding out imports compression and all.
        if self._is_printing:
            return super()._get_formatter()
        return self.formatter_class(prog=self.prog, width=_WIDTH)  # type: ignore[call-arg]

    def options(self) -> Iterator[argparse.Action]:
        """What may be given with a leading dash."""
        return (action for action in self._actions if action.option_strings)

    def verbs(self) -> dict[str, Parser]:
        """The sub-verbs, by name."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def summaries(self) -> dict[str, str]:
        """What `--help` says of the sub-verbs, by name."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return {one.dest: one.help or "" for one in action._get_subactions()}
        return {}

    def error(self, message: str) -> NoReturn:
        """Print the usage and what is wrong, in words that say what was expected; end with 2."""
        required = _REQUIRED.fullmatch(message)
        if required is not None and self.verbs():
            message = f"expected a {required[1].lower()}: {', '.join(self.verbs())}"
        value = _VALUE.fullmatch(message)
        if value is not None:
            what = {"int": "a whole number", "float": "a number"}.get(value[2], "another value")
            message = f"{value[1]}: expected {what}, got {value[3]}"
        choice = _CHOICE.match(message)
        if choice is not None:
            near = nearest(choice[1], _QUOTED.findall(choice[2]) or choice[2].split(", "))
            message += f"; did you mean {near!r}?" if near is not None else ""
        super().error(message)

    def _refuse(self, unknown: list[str]) -> NoReturn:
        first = unknown[0].partition("=")[0]
        known = [name for action in self.options() for name in action.option_strings]
        if not first.startswith("-"):
            self.error(
                f"unexpected argument {first!a}; quote an argument that has spaces or * in it"
            )
        if first.startswith("--"):
            # Without their dashes, which all have in common: --timeout is not near to --count.
            near = nearest(first[2:], [name[2:] for name in known if name.startswith("--")])
            hint = "" if near is None else f"; did you mean --{near}?"
        else:
            hint = f"; did you mean {first.swapcase()}?" if first.swapcase() in known else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")


def nearest(word: str, known: Sequence[str]) -> str | None:
    """What was most likely meant; None: nothing is near enough to be suggested."""
    from difflib import get_close_matches  # only mistakes need it

    return next(iter(get_close_matches(word, known, n=1, cutoff=_NEAR)), None)


_SIDES: Final = ("connect", "listen")
_NEAR: Final = 0.7
_WIDTH: Final = 80
_NEGATIVE: Final = re.compile(r"-\.?\d")
# What argparse says, in the words of all versions of Python that there are.
_REQUIRED: Final = re.compile(r"the following arguments are required: (VERB|NOUN)")
_VALUE: Final = re.compile(r"(argument .*): invalid (\w+) value: (.*)")
_CHOICE: Final = re.compile(r"argument .*: invalid choice: '([^']*)' \(choose from (.*)\)")
_QUOTED: Final = re.compile(r"'([^']*)'")


def endpoint(text: str) -> str:
    """Where to connect to or to listen at, for argparse."""
    from elea.session.endpoints import check_endpoint  # late: `--help` needs no more than texts

    try:
        check_endpoint(text)
    except MissingDependencyError:
        pass  # it is written as it should be; what is missing is told when it is used
    except EleaError as error:
        raise argparse.ArgumentTypeError(f"expected an endpoint; {error}") from None
    return text


def rest_address(text: str) -> str:
    """Where REST is served, for argparse: `[IP:]PORT`, or `none`."""
    from elea.web.settings import address_of  # late: most routers serve none

    if text.lower() != "none":
        try:
            address_of(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(error.reason) from None
    return text


def xrce_endpoint(text: str) -> str:
    """Where XRCE devices are served, for argparse."""
    from elea.devices.lines import endpoint_of  # late: most routers serve none

    try:
        endpoint_of(text)
    except InvalidValueError as error:
        raise argparse.ArgumentTypeError(error.reason) from None
    return text


def dds_domain(text: str) -> int:
    """A DDS domain, for argparse."""
    from elea.ros.formats.keys import DOMAIN_MAX  # late: most routers bridge none

    if not (text.isascii() and text.isdigit() and int(text) <= DOMAIN_MAX):
        raise argparse.ArgumentTypeError(f"expected 0 to {DOMAIN_MAX}, got {text!a}")
    return int(text)


def identity(text: str) -> str:
    """The id of a node, for argparse."""
    from elea.config.config import Config  # late: most nodes draw theirs

    try:
        Config().insert_json5("id", json.dumps(text))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.reason) from None
    return text


def setting(text: str) -> str:
    """A key of the configuration and its value, for argparse."""
    if ":" not in text:
        form = "KEY:VALUE, such as scouting/gossip/enabled:false"
        raise argparse.ArgumentTypeError(f"expected {form}, got {text!a}")
    from elea.config.config import Config  # late: few commands have settings

    key, _, value = text.partition(":")
    config = Config()
    try:
        config.insert_json5(key, value)
        if key.partition("/")[0] in _SIDES:
            _check_endpoints(config)
    except EleaError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _check_endpoints(config: Config) -> None:
    """Check the endpoints of a configuration, whatever the role will be.

    Raises:
        ConfigError: one has a scheme, an address or an option that there is not.
    """
    from elea.session.endpoints import check_parsed, refusal

    for role in ("router", "peer", "client"):
        config.insert_json5("mode", json.dumps(role))
        for side in _SIDES:
            for place in (one for group in config.endpoints(side) for one in group):
                try:
                    check_parsed(place)
                except MissingDependencyError:
                    pass  # as for an option
                except EleaError as error:
                    raise ConfigError(f"{side}/endpoints", refusal(place, error)) from None


def add_key_argument(
    parser: argparse.ArgumentParser,
    dest: str = "key",
    *,
    metavar: str = "KEY",
    flags: Sequence[str] = ("-k", "--key"),
    many: bool = False,
    default: str | None = None,
    help: str,
) -> None:
    """Add a key as argument, or as `-k KEY` as in zenoh's examples.

    Args:
        parser: Of the verb.
        dest: The attribute.
        metavar: As the usage names it.
        flags: The options that say the same.
        many: Whether there may be several; the attribute is a list then.
        default: The key if none is given; None: one has to be given.
        help: What it is.
    """
    if default is not None:
        parser.set_defaults(**{dest: default})  # first: a default of the argument would win over -k
    group = parser.add_mutually_exclusive_group(required=default is None)
    argument = group.add_argument(
        dest,
        metavar=metavar,
        nargs="*" if many else "?",
        default=argparse.SUPPRESS,
        help=help,
    )
    group.add_argument(
        *flags,
        dest=dest,
        metavar=metavar,
        action="append" if many else "store",
        default=argparse.SUPPRESS,
        help=f"the same as {metavar}" + ("; may be repeated" if many else ""),
    )
    if isinstance(parser, Parser):
        parser.replace_by(argument, flags)


def add_selector_argument(parser: argparse.ArgumentParser, *, help: str) -> None:
    """Add a selector as argument, or as `-s SELECTOR` or `-k KEY`."""
    add_key_argument(
        parser,
        "selector",
        metavar="SELECTOR",
        flags=("-s", "--selector", "-k", "--key"),
        help=help,
    )
