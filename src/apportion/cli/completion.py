"""``apportion completion SHELL``: a script that asks ``apportion`` itself for the words that may come next."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from apportion.cli.commands import COMMANDS, parser_of
from apportion.cli.output import emit
from apportion.cli.parser import OneOf, Parser

DETAILS = (
    "The script asks apportion for each word, so that strategies installed later are completed too, the groups of the\n"
    "input after --group, and a strategy's settings after --set."
)
EXAMPLES = (
    ("bash, now and in every new shell", 'eval "$(apportion completion bash)"'),
    ("zsh, in ~/.zshrc after compinit", 'eval "$(apportion completion zsh)"'),
    ("fish", "apportion completion fish > ~/.config/fish/completions/apportion.fish"),
)

_BASH: Final = """\
_apportion() {
    local IFS=$'\\n'
    COMPREPLY=($(apportion __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o filenames
        COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    elif [[ ${#COMPREPLY[@]} -eq 1 ]]; then
        if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
        COMPREPLY=("$(printf %q "${COMPREPLY[0]}")")
    fi
}
complete -F _apportion apportion
"""
_ZSH: Final = """\
_apportion() {
    local -a words_now
    words_now=(${(f)"$(apportion __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ! ${#words_now} )); then _files; return; fi
    compadd -S '' -- ${(M)words_now:#*=}
    compadd -- ${words_now:#*=}
}
compdef _apportion apportion
"""
_FISH: Final = """\
function __apportion_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l words_now (apportion __complete $words[2..-1] 2>/dev/null)
    if set -q words_now[1]
        printf '%s\\n' $words_now
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c apportion -f -a '(__apportion_complete)'
"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_arguments(parser: Parser) -> None:
    """The shell."""
    parser.add_argument("shell", metavar="SHELL", type=OneOf([*SCRIPTS], "shell"), help=", ".join(SCRIPTS))


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    emit(SCRIPTS[args.shell])
    return 0


def complete(words: Sequence[str]) -> int:
    """Print the completions of the last word, one a line; nothing if a file is meant."""
    emit("".join(f"{word}\n" for word in candidates(words)))
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """The completions of the last of the words (those after ``apportion``).

    >>> candidates(["wh"])
    ['what-if']
    """
    whole = _joined(words)
    now = whole[-1] if whole else ""
    if len(whole) < len(words) and "=" in now:  # bash parts words at =, and replaces what follows it
        key = now.partition("=")[0]
        return [value.removeprefix(f"{key}=") for value in candidates(whole) if value != f"{key}="]
    if len(words) <= 1:
        return [name for name in [*COMMANDS, "--help", "--version"] if name.startswith(now)]
    if words[0] not in COMMANDS:
        return []
    parser = parser_of(words[0])
    # A name with letters that a terminal obeys is offered to nobody: no shell could take it from there either.
    return [value for value in _values(parser, words) if value.startswith(now) and value.isprintable()]


def _joined(words: Sequence[str]) -> list[str]:
    """The words as they were typed: bash hands ``scope=group`` on as three.

    >>> _joined(["--set", "scope", "=", "gr"]), _joined(["--set", "scope", "="])
    (['--set', 'scope=gr'], ['--set', 'scope='])
    """
    whole: list[str] = []
    for i, word in enumerate(words):
        if whole and (word == "=" or (i and words[i - 1] == "=")) and not (word == "=" and whole[-1].endswith("=")):
            whole[-1] += word
        else:
            whole.append(word)
    return whole


def _values(parser: Parser, words: Sequence[str]) -> list[str]:
    """Values of the option before the last word, else options, else the choices of a positional argument."""
    before = parser._option_string_actions.get(words[-2])
    if before is not None and before.nargs != 0:
        return _values_of(before, words)
    if words[-1].startswith("-"):
        return [name for name in parser._option_string_actions if name.startswith("--")]
    positional = [_names(action) for action in parser._actions if not action.option_strings]
    return positional[0] if positional and len(words) == 2 else []


def _values_of(action: argparse.Action, words: Sequence[str]) -> list[str]:
    if action.dest == "groups":
        return _groups(words)
    if action.dest == "settings":
        return _settings(words)
    if action.dest == "assignor":
        from apportion.assignors import known

        return list(known())
    return _names(action)


def _names(action: argparse.Action) -> list[str]:
    """The argument's choices, if it takes one of some names."""
    return [*action.type.names] if isinstance(action.type, OneOf) else []


def _groups(words: Sequence[str]) -> list[str]:
    """The groups of the file or folder on the line, or of the cluster that it names, if that answers soon."""
    from threading import Thread

    names: list[str] = []
    asking = Thread(target=lambda: names.extend(_group_names(words)), daemon=True)
    asking.start()
    asking.join(GROUPS_S)
    return sorted(names)


GROUPS_S: Final = 3.0
"""How long a completion may take: who waits for a word types on."""


def _group_names(words: Sequence[str]) -> list[str]:
    import os
    from contextlib import suppress

    from apportion.errors import ApportionError

    with suppress(ApportionError, OSError, ValueError):
        path = next((word for word in words[1:-1] if not word.startswith("-") and os.path.exists(word)), None)
        if path is None:
            return _live_names(words)
        from apportion.sources import load_history, sniff

        if os.path.isdir(path):
            return [group.name for group in load_history.load_histories(path).living]
        with open(path, "rb") as file:
            return [group.name for group in sniff.groups_in(file.read(), path)]
    return []


def _live_names(words: Sequence[str]) -> list[str]:
    """The names that a cluster lists, if the line says how to reach one."""
    from apportion.sources import config, group_descriptions
    from apportion.sources.cluster import connect, patiently

    given = {option: _after(words, option) for option in ("--bootstrap-server", "--command-config", "--context")}
    if not any(given.values()) and not config.is_set():
        return []
    cluster_at = config.connection(*given.values())
    with connect(cluster_at.bootstrap, cluster_at.properties) as cluster:
        listed = patiently(cluster_at.bootstrap, cluster._admin.list_groups)
    return [group["group_id"] for group in listed if group_descriptions.reads(group)]


def _after(words: Sequence[str], *options: str) -> str | None:
    """The value that the line gives an option; None for none."""
    for i, word in enumerate(words[:-1]):
        name, equals, value = word.partition("=")
        if name in options:
            return value if equals else words[i + 1]
    return None


def _settings(words: Sequence[str]) -> list[str]:
    """``KEY=`` of the strategy that the line names, or ``KEY=VALUE`` if the key is typed and has few values."""
    from typing import get_args

    from apportion.assignors import known, settings_of
    from apportion.defaults import DEFAULT_ASSIGNOR

    named = _after(words, "-A", "--assignor")
    # compare plans with all strategies, and gives each the settings that it has.
    names = list(known()) if words[0] == "compare" and named is None else [named or DEFAULT_ASSIGNOR]
    settings = {key: kind for name in names if name in known() for key, kind in settings_of(known()[name]).items()}
    key, equals, _ = words[-1].partition("=")
    if not equals:
        return [f"{name}=" for name in settings]
    kind = settings.get(key)
    choices = ("true", "false") if kind is bool else tuple(c for c in get_args(kind) if isinstance(c, str))
    return [f"{key}={choice}" for choice in choices]
