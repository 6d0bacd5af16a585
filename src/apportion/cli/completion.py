"""``apportion completion SHELL``: a script that asks ``apportion`` itself what may come next."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from apportion.cli.commands import COMMANDS, parser_of
from apportion.cli.output import emit
from apportion.cli.parser import Parser, one_of

DETAILS = "The script asks apportion for each word, so that strategies installed later are completed too."
EXAMPLES = (
    ("bash, now and in every new shell", 'eval "$(apportion completion bash)"'),
    ("zsh, in ~/.zshrc after compinit", 'eval "$(apportion completion zsh)"'),
    ("fish", "apportion completion fish > ~/.config/fish/completions/apportion.fish"),
)

_BASH: Final = """\
_apportion() {
    local IFS=$'\\n'
    COMPREPLY=($(apportion __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")); fi
}
complete -o filenames -F _apportion apportion
"""
_ZSH: Final = """\
_apportion() {
    local -a words_now
    words_now=(${(f)"$(apportion __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#words_now} )); then compadd -a words_now; else _files; fi
}
compdef _apportion apportion
"""
_FISH: Final = """\
function __apportion_complete
    set -l words (commandline -opc) (commandline -ct)
    apportion __complete $words[2..-1] 2>/dev/null
end
complete -c apportion -a '(__apportion_complete)'
"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_arguments(parser: Parser) -> None:
    """The shell."""
    parser.add_argument(
        "shell", metavar="SHELL", choices=[*SCRIPTS], type=one_of([*SCRIPTS], "shell"), help=", ".join(SCRIPTS)
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    emit(SCRIPTS[args.shell])
    return 0


def complete(words: Sequence[str]) -> int:
    """Print what the last word may become, one a line; nothing where a file is meant."""
    emit("".join(f"{word}\n" for word in candidates(words)))
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """What the last of the words (those after ``apportion``) may become.

    >>> candidates(["wh"])
    ['what-if']
    """
    now = words[-1] if words else ""
    if len(words) <= 1:
        return [name for name in [*COMMANDS, "--help", "--version"] if name.startswith(now)]
    if words[0] not in COMMANDS:
        return []
    parser = parser_of(words[0])
    return [value for value in _values(parser, words) if value.startswith(now)]


def _values(parser: Parser, words: Sequence[str]) -> list[str]:
    """Values of the option before the last word, else options, else the choices of a positional argument."""
    before = parser._option_string_actions.get(words[-2])
    if before is not None and before.nargs != 0:
        return _values_of(before)
    if words[-1].startswith("-"):
        return [name for name in parser._option_string_actions if name.startswith("--")]
    choices = [action.choices for action in parser._actions if not action.option_strings and action.choices]
    return [str(choice) for choice in choices[0]] if choices and len(words) == 2 else []


def _values_of(action: argparse.Action) -> list[str]:
    if action.dest == "assignor":
        from apportion.assignors import known

        return list(known())
    if action.dest == "output":
        return [name.strip() for name in str(action.help).partition(" (")[0].split(",")]
    return [str(choice) for choice in action.choices or ()]
