"""`elea completion`: scripts with which shells complete verbs, options and their values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from elea.cli.parsing import Parser

NAME: Final = "completion"
SUMMARY: Final = "print a script with which a shell completes `elea` and `elead`"

_EPILOG: Final = """\
to use it in every new shell:
  bash   elea completion bash > ~/.local/share/bash-completion/completions/elea
         ln -s elea ~/.local/share/bash-completion/completions/elead
  zsh    elea completion zsh > ~/.zfunc/_elea       with ~/.zfunc in fpath before compinit
  fish   elea completion fish > ~/.config/fish/completions/elea.fish
or at once, in this one: eval "$(elea completion bash)"
"""


@dataclass(slots=True)
class Place:
    """What may come after some verbs: further verbs, options, and the values of options."""

    path: str  # the verbs, as `log import`; empty before the first
    verbs: dict[str, str] = field(default_factory=dict)  # with what they do
    options: dict[str, str] = field(default_factory=dict)
    takes_value: list[str] = field(default_factory=list)  # options
    values: dict[str, list[str]] = field(default_factory=dict)  # of options, where they are listed
    arguments: list[str] = field(default_factory=list)  # where they are listed


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=tuple(_WRITERS), metavar="SHELL", help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from elea.cli.main import VERBS, build_parser  # which imports this module when it is used

    places = list(_places("", build_parser(list(VERBS))))
    print("\n".join(_WRITERS[args.shell](places)))
    return 0


def _places(path: str, parser: Parser) -> Iterator[Place]:
    place = Place(path, parser.summaries())
    for action in parser._actions:
        listed = [str(one) for one in action.choices or ()]
        if not action.option_strings:
            if not place.verbs:
                place.arguments += listed
            continue
        for name in action.option_strings:
            place.options[name] = _one_line(action.help)
            if action.nargs != 0:
                place.takes_value.append(name)
                place.values[name] = listed
    yield place
    for name, child in parser.verbs().items():
        yield from _places(f"{path} {name}".strip(), child)


def _one_line(text: str | None) -> str:
    if text is None or text == argparse.SUPPRESS:
        return ""
    return " ".join(text.replace("%%", "%").split())


# bash: one function that finds the verbs among the words, then looks up what may follow them.

_BASH: Final = """\
# Completes elea and elead. Written by `elea completion bash`.
_elea() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"
    local path="" word skip="" words="" values="" i
    [[ ${COMP_WORDS[0]##*/} == elead ]] && path="router"
    _elea_place "$path"
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="${COMP_WORDS[i]}"
        if [[ -n $skip ]]; then skip=""; continue; fi
        if [[ $word == -* ]]; then
            [[ " $takes " == *" $word "* ]] && skip=1
        elif [[ " $verbs " == *" $word "* ]]; then
            path="${path:+$path }$word"
            _elea_place "$path"
        fi
    done
    if [[ " $takes " == *" $prev "* ]]; then
        values="$(_elea_values "$path $prev")"
        [[ -n $values ]] || return 0
        COMPREPLY=($(compgen -W "$values" -- "$cur"))
    elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    else
        COMPREPLY=($(compgen -W "$verbs $arguments" -- "$cur"))
    fi
}"""


def _bash(places: list[Place]) -> Iterator[str]:
    yield _BASH
    yield "_elea_place() {"
    yield '    verbs="" options="" takes="" arguments=""'
    yield '    case "$1" in'
    for place in places:
        yield f'        "{place.path}")'
        for name, words in (
            ("verbs", place.verbs),
            ("options", place.options),
            ("takes", place.takes_value),
            ("arguments", place.arguments),
        ):
            if words:
                yield f'            {name}="{" ".join(words)}"'
        yield "            ;;"
    yield "    esac"
    yield "}"
    yield from _values_function(places)
    yield "complete -o default -F _elea elea elead"


# zsh: the same walk, with what each word does beside it. `options` is a variable of zsh's own.

_ZSH: Final = """\
#compdef elea elead
# Completes elea and elead. Written by `elea completion zsh`.
_elea() {
    local at="" word skip="" i
    local -a verbs flags takes arguments listed names
    [[ ${words[1]:t} == elead ]] && at="router"
    _elea_place "$at"
    for ((i = 2; i < CURRENT; i++)); do
        word="${words[i]}"
        if [[ -n $skip ]]; then skip=""; continue; fi
        if [[ $word == -* ]]; then
            (( ${takes[(Ie)$word]} )) && skip=1
        else
            names=(${verbs%%:*})
            if (( ${names[(Ie)$word]} )); then
                at="${at:+$at }$word"
                _elea_place "$at"
            fi
        fi
    done
    word="${words[CURRENT-1]}"
    if (( CURRENT > 2 && ${takes[(Ie)$word]} )); then
        listed=(${=$(_elea_values "$at $word")})
        if (( $#listed )); then compadd -a listed; else _files; fi
    elif [[ ${words[CURRENT]} == -* ]]; then
        _describe -o option flags
    elif (( $#verbs )); then
        _describe verb verbs
    elif (( $#arguments )); then
        compadd -a arguments
    else
        _files
    fi
}"""


def _zsh(places: list[Place]) -> Iterator[str]:
    yield _ZSH
    yield "_elea_place() {"
    yield "    verbs=() flags=() takes=() arguments=()"
    yield '    case "$1" in'
    for place in places:
        yield f'        "{place.path}")'
        for name, described in (("verbs", place.verbs), ("flags", place.options)):
            if described:
                shown = " ".join(_quoted(f"{key}:{text}") for key, text in described.items())
                yield f"            {name}=({shown})"
        if place.takes_value:
            yield f"            takes=({' '.join(place.takes_value)})"
        if place.arguments:
            yield f"            arguments=({' '.join(place.arguments)})"
        yield "            ;;"
    yield "    esac"
    yield "}"
    yield from _values_function(places)
    yield 'if [[ $funcstack[1] == _elea ]]; then _elea "$@"; else compdef _elea elea elead; fi'


def _values_function(places: list[Place]) -> Iterator[str]:
    yield "_elea_values() {"
    yield '    case "$1" in'
    for place in places:
        for option, listed in place.values.items():
            if listed:
                yield f'        "{place.path} {option}") echo "{" ".join(listed)}" ;;'
    yield "    esac"
    yield "}"


# fish: one line per word, each with the condition under which it may come.

_FISH: Final = """\
# Completes elea and elead. Written by `elea completion fish`.
function __elea_at -d 'Whether these verbs were given, and nothing after them but options'
    set -l found
    set -l words (commandline -opc)
    test (basename $words[1]) = elead; and set found router
    for word in $words[2..]
        string match -q -- '-*' $word; or set -a found $word
    end
    set -l wanted (string split -n ' ' -- "$argv[2]")
    test (count $found) -ge (count $wanted); or return 1
    if test (count $wanted) -gt 0
        test "$found[1..$(count $wanted)]" = "$wanted"; or return 1
    end
    test $argv[1] = options; or test (count $found) -eq (count $wanted)
end"""


def _fish(places: list[Place]) -> Iterator[str]:
    yield _FISH
    for command in ("elea", "elead"):
        for place in places:
            if command == "elead" and place.path != "router":
                continue
            after = f"complete -c {command} -n '__elea_at verbs \"{place.path}\"'"
            for name, text in place.verbs.items():
                yield f"{after} -f -a {name} -d {_quoted(text)}"
            if place.arguments:
                yield f"{after} -f -a {_quoted(' '.join(place.arguments))}"
            within = f"complete -c {command} -n '__elea_at options \"{place.path}\"'"
            for name, text in place.options.items():
                form = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                value = ""
                if name in place.takes_value:
                    listed = place.values[name]
                    value = f" -x -a {_quoted(' '.join(listed))}" if listed else " -r"
                yield f"{within} {form}{value} -d {_quoted(text)}"


def _quoted(text: str) -> str:
    """A text between single quotes, as all three shells read it."""
    return "'" + text.replace("'", "'\\''") + "'"


_WRITERS: Final = {"bash": _bash, "zsh": _zsh, "fish": _fish}
