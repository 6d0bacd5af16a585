"""The command line: arguments to calls; slow imports happen inside their command.

Built on argparse, which starts in a fraction of the time of typer or click and keeps the order of options, as the steps
of ``what-if`` need it; what it lacks (hints, examples, completion) is in ``parser`` and ``completion``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from apportion.errors import ApportionError, UnknownName, install_command

OK, SOME_FAILED, WRONG, BREACHED = 0, 1, 2, 3
"""Exit codes: well; some item of a batch failed; wrong usage or bad input; a policy of the user's was breached."""
OUR_FAULT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 70, 130, 141, 143
"""Exit codes: a fault in apportion (BSD's EX_SOFTWARE); Ctrl-C, a reader that went away, SIGTERM (as shells count)."""
_EXTRAS = {
    "pyarrow": "spark",
    "pyspark": "spark",
    "pandas": "spark",
    "kafka": "kafka-python",
    "ortools": "flow",
    "rich": "kafka-python",
}
"""Libraries that a command may lack, and the extra of this package that brings each."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; a user never sees a traceback unless APPORTION_DEBUG is set."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _ended_in_good_order():
            code = _run(arguments)
            _flush()
        return code
    except SystemExit as end:
        return _end(end)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _let_go_of_stdout()
        return BROKEN_PIPE
    except Exception as error:
        if os.environ.get("APPORTION_DEBUG"):
            raise
        return complain(error)


@contextmanager
def _ended_in_good_order() -> Iterator[None]:
    """SIGTERM unwinds the block as Ctrl-C does, so that locks are released and temporary folders removed.

    By default it would end the process where it stands, and the first process of a container not at all. A handler of
    somebody else's stays.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminated(number: int, frame: object) -> NoReturn:
    raise SystemExit(TERMINATED)


def _run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; bare ``apportion`` shows the help."""
    from apportion.cli.commands import COMMANDS, command, parser_of, top_help
    from apportion.cli.output import emit

    if not arguments or arguments[0] in ("-h", "--help", "help"):
        if len(arguments) > 1 and not arguments[1].startswith("-"):
            return _run([arguments[1], "--help"])
        emit(top_help())
        return 0
    if arguments[0] in ("-V", "--version", "version"):
        from apportion import __version__

        emit(f"apportion {__version__}\n")
        return 0
    if arguments[0].startswith("-"):
        raise UnknownName("option", arguments[0], ["--help", "--version", *COMMANDS])
    name = arguments[0]
    if name == "__complete":
        from apportion.cli.completion import complete

        return complete(arguments[1:])
    args = parser_of(name).read(arguments[1:])
    try:
        return int(command(name).run(args))
    except ApportionError as error:
        _name_strategy_too(error, getattr(args, "assignor", None))
        raise


def _name_strategy_too(error: ApportionError, assignor: str | None) -> None:
    """A fault of the input must not hide that the strategy is not there either."""
    from apportion.strategy.registry import known

    if assignor is not None and assignor not in known():
        unknown = str(UnknownName("assignor", assignor, known()))
        if unknown != str(error):
            error.add_note(unknown)


def complain(error: Exception) -> int:
    """One sentence on standard error, and the exit code for this error."""
    if isinstance(error, ApportionError):
        for sentence in (str(error), *getattr(error, "__notes__", ())):
            _say(sentence, WRONG)
        return WRONG
    if isinstance(error, MemoryError):
        return _say(f"this input needs more memory than there is ({str(error) or 'no more to get'}).", WRONG)
    if isinstance(error, OSError):
        where = f" {os.fspath(error.filename)!r}" if isinstance(error.filename, str) else ""
        return _say(f"cannot read or write{where}: {error.strerror or error}.", WRONG)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _EXTRAS:
        extra = _EXTRAS[str(error.name).partition(".")[0]]
        return _say(f"this needs {error.name}, which is not installed: {install_command(extra)}", WRONG)
    return _say(
        f"this is a fault in apportion, not in what you gave it: {type(error).__name__}: {error}. "
        "Please report it, with what APPORTION_DEBUG=1 prints.",
        OUR_FAULT,
    )


def _say(sentence: str, code: int) -> int:
    from apportion.cli.output import tell

    tell(f"apportion: {sentence}")
    return code


def _end(end: SystemExit) -> int:
    try:
        _flush()
    except BrokenPipeError:
        _let_go_of_stdout()
        return BROKEN_PIPE
    return end.code if isinstance(end.code, int) else WRONG if end.code else OK


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _let_go_of_stdout() -> None:
    """Python flushes standard output once more at the end and would complain again."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass
