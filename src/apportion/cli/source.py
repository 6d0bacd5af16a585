"""Where a command's groups come from: a file, standard input, a folder, or a live cluster."""

from __future__ import annotations

import argparse
import atexit
import os
import re
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from apportion.arrays import UNKNOWN
from apportion.cli import progress
from apportion.cli.output import tell
from apportion.cli.parser import Parser, Usage
from apportion.errors import BadInput, MissingExtra, Unavailable, within
from apportion.model.protocols import SHARE
from apportion.wording import count, some_of

if TYPE_CHECKING:
    from apportion.history.group_history import GroupHistory
    from apportion.model.plan_json import SavedPlan
    from apportion.sighting.sighting import Sighting
    from apportion.sources.config import Connection
    from apportion.sources.series import AllSeries

MOST_BYTES: Final = 256 << 20
"""Of an input that is read whole: the rows of a million partitions are half of it, and an endless pipe must end."""
UNTIMED_S: Final = 60.0
"""Seconds taken for those between two listings where nobody knows them: only relations of rates are told then."""
DAY_S: Final = 86_400.0
CONNECTION: Final = ("bootstrap_server", "command_config", "context")
"""Options that say how to reach a cluster."""


def add_group_choice(parser: Parser) -> None:
    """``--group``, and the options that reach a live cluster, named as Kafka's own tools name them."""
    parser.add_argument(
        "--group", metavar="GROUP", dest="groups", action="append", default=[],
        help="which group, if the input has several (describe and report take more than one)",
    )  # fmt: skip
    add_connection(parser)


def add_subscribe(parser: Parser) -> None:
    """``--subscribe``: what members want, where a text does not tell it."""
    parser.add_argument(
        "--subscribe", metavar="[MEMBER=]TOPIC,...", dest="subscriptions", action="append", default=[],
        help="the topics of all members, or of one, for a text without subscriptions; may be given more than once",
    )  # fmt: skip


def add_connection(parser: Parser) -> None:
    """How to reach a live cluster; whatever is left out comes from the environment or the config file's context."""
    live = parser.add_argument_group("live cluster")
    live.add_argument("--bootstrap-server", metavar="HOST:PORT", help="or APPORTION_BOOTSTRAP_SERVER")
    live.add_argument("--command-config", metavar="FILE", help="Kafka client properties (SASL, TLS); never printed")
    live.add_argument("--context", metavar="NAME", help="a context of the config file; or APPORTION_CONTEXT")


def many(args: argparse.Namespace, whole: bool = True) -> list[Sighting]:
    """The groups that the arguments mean, at least one; of a text, see ``sniff.groups_in`` for ``whole``."""
    from apportion.sources import load_history, sniff

    if args.file is None and is_live(args):
        return _live(args)
    path = _path(args)
    with _reading(path):
        folder = _is_folder(path)
        groups = load_history.groups_in_folder(path) if folder else sniff.groups_in(_content(path), called(path), whole)
    return sniff.chosen(groups, args.groups)


def one(args: argparse.Namespace) -> Sighting:
    """The one group that the arguments mean, to be planned; a share group is none that can be."""
    from apportion.sources import sniff

    return plannable(sniff.the_one(many(args), _called(args)), args)


def plannable(sighting: Sighting, args: argparse.Namespace, whole: bool = True) -> Sighting:
    """The group, with the subscriptions that --subscribe states, where its source tells enough to plan it.

    whole
        Whether a source of which something was left out is refused here.
    """
    refuse_share(sighting.name, sighting.protocol)
    refuse_unnamed(sighting, args)
    if whole:
        refuse_parts(sighting, args)
    if not sighting.group.M:
        raise BadInput(
            _called(args),
            f"no member at all in group {sighting.name!r}",
            "at least one: there is no member to plan for",
        )
    if getattr(args, "subscriptions", None):
        from apportion.sources.subscribing import subscribed

        sighting = subscribed(sighting, args.subscriptions)
    return sighting


def assumptions(sighting: Sighting) -> list[str]:
    """A sentence for what every plan of the group rests on that its source does not tell; empty where it tells all."""
    if not sighting.assumed:
        return []
    return [f"This rests on subscriptions that are assumed. {sighting.assumed} You can state them with --subscribe."]


def refuse_parts(sighting: Sighting, args: argparse.Namespace) -> None:
    """A plan or a gate of a part of a group would say nothing of the whole."""
    if sighting.gaps:
        more = f" and {len(sighting.gaps) - 1:,} more such" if len(sighting.gaps) > 1 else ""
        needed = "the whole output, without lines between the rows"
        raise BadInput(_called(args), f"a text of which not all was read: {sighting.gaps[0]}{more}", needed)


def refuse_contradiction(sighting: Sighting, args: argparse.Namespace) -> None:
    """A gate that passed on a text that contradicts itself would judge figures that may be wrong."""
    if sighting.contradiction:
        needed = "a listing whose LAG is LOG-END-OFFSET less CURRENT-OFFSET"
        raise BadInput(_called(args), f"a text that contradicts itself: {sighting.contradiction}", needed)


def refuse_unnamed(sighting: Sighting, args: argparse.Namespace) -> None:
    """A text that counts each member's partitions and names none is no group to be judged: it would seem empty."""
    if sighting.unnamed_partitions and not sighting.group.P:
        held = f"members of {sighting.name!r} that hold {sighting.unnamed_partitions:,} partitions, but not which"
        raise BadInput(_called(args), held, "what --describe, or --describe --members --verbose, prints")
    if not sighting.owners_told:
        raise BadInput(
            _called(args), f"a table of {sighting.name!r} that does not show which member reads",
            "the column CONSUMER-ID, as --describe prints it, or another tool's list of members",
        )  # fmt: skip


def refuse_share(group: str, protocol: str | None) -> None:
    """Nobody owns a partition of a share group, so that there is nothing to plan."""
    if protocol == SHARE:
        raise BadInput("group", f"{group!r}, a share group, whose partitions have no owners", "another kind of group")


def folder(args: argparse.Namespace) -> str | None:
    """The dump or the tables that are the input, on this machine; None where it is another."""
    return path if args.file is not None and _is_folder(path := _path(args)) else None


def history(args: argparse.Namespace, group: str) -> GroupHistory | None:
    """What a dump or tables remember of a group; None where the input is another, which knows the present alone."""
    path = folder(args)
    if path is None:
        return None
    from apportion.sources.load_history import load_histories

    with progress.slow(f"reading {path}"):
        return load_histories(path).group(group)


@dataclass(frozen=True)
class OverTime:
    """What is known of one group over time.

    window_s
        Over which rates are taken.
    held_since_ms
        Since when members have held what they hold; None unknown.
    now_ms
        When log ends were last sampled; None: the group's own series tell.
    rebalanced_at_ms
        When it rebalanced, ascending, of a dump or tables, and in a live cluster's last hour; None unknown.
    timed
        Whether the seconds are known; else only how rates compare.
    """

    series: AllSeries
    window_s: float
    held_since_ms: int | None = None
    now_ms: int | None = None
    rebalanced_at_ms: Sequence[int] | None = None
    timed: bool = True


def over_time(
    args: argparse.Namespace, groups: Sequence[Sighting], window_s: float | None, rebalances: bool = False
) -> Iterator[OverTime] | None:
    """Each group's commits and log ends over time; None for a file or a text, which tells of one moment only.

    rebalances
        Of a live cluster read meanwhile what ``__consumer_offsets`` tells of rebalances.
    """
    if args.file is None and is_live(args):
        return _watched(args, groups, window_s or 10, rebalances)
    path = folder(args)
    return None if path is None else _recorded(path, groups, window_s)


def _watched(
    args: argparse.Namespace, groups: Sequence[Sighting], window_s: float, rebalances: bool
) -> Iterator[OverTime]:
    from concurrent.futures import ThreadPoolExecutor

    from apportion.sources import series

    tell(f"looking at {'the group' if len(groups) == 1 else count(len(groups), 'group')} for {window_s:g} s")
    names = [sighting.name for sighting in groups]
    with ThreadPoolExecutor(1) as pool:
        past = pool.submit(_rebalanced, args, names) if rebalances else None
        series_of = series.of_cluster(connection(args), names, window_s, leave_out=getattr(args, "all_groups", False))
        at_ms: Mapping[str, Sequence[int]] = {} if past is None else past.result()
    for name in names:
        yield OverTime(series_of[name], window_s, rebalanced_at_ms=at_ms.get(name))


def _rebalanced(args: argparse.Namespace, names: Sequence[str]) -> Mapping[str, Sequence[int]]:
    """When groups of a live cluster rebalanced, as far as their records may be read."""
    from apportion.sources.cluster import connect
    from apportion.sources.generations import rebalanced_at

    server = connection(args)
    try:
        with connect(server.bootstrap, server.properties) as cluster:
            return rebalanced_at(cluster, server, names)
    except Unavailable as why:
        tell(f"no rebalances: {why}")
        return {}


def _recorded(path: str, groups: Sequence[Sighting], window_s: float | None) -> Iterator[OverTime]:
    """Of a dump or of tables, which are read once for all groups."""
    from apportion.model.lag import WINDOW_S
    from apportion.sources.load_history import load_histories
    from apportion.sources.series import FolderSeries

    window_s = window_s or WINDOW_S
    with progress.slow(f"reading {path}"):
        memory = load_histories(path)
        series = FolderSeries(path, {each.name: each.group.topics for each in groups}, window_s)
    for sighting in groups:
        group = memory.group(sighting.name)
        generations = group.folded.generations
        held_since_ms = generations[-1].at if generations else None
        at_ms = [rebalance.at for rebalance in group.rebalances]
        yield OverTime(series.of(sighting.group), window_s, held_since_ms, series.now_ms or None, at_ms)


@dataclass(frozen=True)
class Listings:
    """Two listings of the same groups, one taken after the other.

    options
        How a command names them.
    apart_s
        Seconds between them; None unknown.
    """

    options: str
    before: Sequence[Sighting]
    after: Sequence[Sighting]
    apart_s: float | None

    def over_time(self) -> Iterator[OverTime]:
        """Each later group's commits and log ends at both moments."""
        from apportion.sources.series import of_looks

        seconds = self.apart_s or UNTIMED_S
        series = of_looks([(0, self.before), (round(seconds * 1000), self.after)])
        for sighting in self.after:
            yield OverTime(series[sighting.name], seconds, now_ms=round(seconds * 1000), timed=self.apart_s is not None)


def two_listings(args: argparse.Namespace, apart_s: float | None) -> Listings:
    """The groups of two files, the earlier one first.

    apart_s
        Seconds between them, as the user says; None takes the files' own times, if these are seconds to a day apart.
    Raises
        BadInput: the second is older than the first, by its logs' ends.
    """
    before = many(args)
    paths = [args.file, args.later]
    later = argparse.Namespace(**{**vars(args), "file": args.later, "path_at_hand": None})
    after = many(later)
    went_back = _went_back(before, after)
    if went_back:
        needed = f"the earlier listing first: apportion describe {shlex.quote(args.later)} {shlex.quote(args.file)}"
        raise BadInput(called(args.later), f"a listing older than {called(args.file)}: {went_back}", needed)
    if apart_s is None and all(path != "-" and os.path.isfile(path) for path in paths):
        by_files = os.path.getmtime(args.later) - os.path.getmtime(args.file)
        apart_s = by_files if 1 <= by_files <= DAY_S else None
    options = f"{shlex.quote(args.file)} {shlex.quote(args.later)}"
    return Listings(f"{options} --window {apart_s:.6g}" if apart_s else options, before, after, apart_s)


def _went_back(before: Sequence[Sighting], after: Sequence[Sighting]) -> str:
    """A log whose end is lower in the later listing, if none is higher: a topic that was made anew goes back alone."""

    def ends(groups: Sequence[Sighting]) -> dict[tuple[str, int], int]:
        known: dict[tuple[str, int], int] = {}
        for group in (each.group for each in groups):
            ends = () if group.offsets is None else group.offsets.end.tolist()
            known |= {group.name_of(p): end for p, end in enumerate(ends) if end != UNKNOWN}
        return known

    first, last = ends(before), ends(after)
    both = [(place, first[place], last[place]) for place in first.keys() & last.keys()]
    if not both or any(new > old for _, old, new in both):
        return ""
    back = sorted((place, old, new) for place, old, new in both if new < old)
    return f"{back[0][0][0]}-{back[0][0][1]} ends at {back[0][2]:,} here and at {back[0][1]:,} there" if back else ""


def plan_or_group(args: argparse.Namespace, whole: bool = True) -> SavedPlan | Sighting:
    """The plan.json that the input holds, else its one group; see ``plannable`` for ``whole``."""
    from apportion.sources import sniff

    if (args.file is None and is_live(args)) or _is_folder(path := _path(args)):
        return one(args)
    with _reading(path):
        content = _content(path)
        saved = _plan_in(content, called(path))
        if saved is not None:
            return saved
        groups = sniff.chosen(sniff.groups_in(content, called(path), whole), args.groups)
    return plannable(sniff.the_one(groups, called(path)), args, whole)


def _plan_in(content: bytes, name: str) -> SavedPlan | None:
    """The plan.json in a text, None where it is something else."""
    from apportion.model.json_checks import read_json
    from apportion.model.plan_json import read_plan
    from apportion.sources import sniff

    if content.lstrip()[:1] != b"{" or b'"assignment"' not in content:
        return None
    raw = read_json(content, name)
    with within(name):
        return read_plan(raw) if sniff.is_plan(raw) else None


def saved_plan(path: str) -> SavedPlan:
    """The plan.json in a file, - for standard input."""
    content = _content(path)
    saved = _plan_in(content, called(path))
    if saved is None:
        begins = ascii(content[:40].decode("utf-8", "replace")) if content.strip() else "nothing"
        raise BadInput(called(path), begins, "plan.json, as plan --save writes it")
    return saved


def _path(args: argparse.Namespace) -> str:
    """Where the input is on this machine; what is far away is copied once, however often the command asks."""
    if getattr(args, "path_at_hand", None) is None:
        choose(args)
        args.path_at_hand = at_hand(args.file, args.groups) if args.file is not None else _standard_input()
    return str(args.path_at_hand)


def at_hand(path: str, groups: Sequence[str] = ()) -> str:
    """A path that is on this machine: itself, or a folder with a copy of what a URI or a catalog's schema holds.

    groups
        Of tables these alone are copied; all where none is named.
    """
    from apportion.spark.location import locate
    from apportion.spark.scratch import scratch_folder

    if path.lower().startswith("file:"):
        return locate(path).root
    if not _is_far(path):
        return path
    try:
        from apportion.spark.local_copy import copy
    except ModuleNotFoundError:
        raise MissingExtra(f"Reading {path}", "spark") from None
    folder = scratch_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy(path, folder, groups, starting=lambda: tell(f"reading {path} with Spark"))
    return str(folder)


def _is_far(path: str) -> bool:
    """Whether it is not on this machine: a URI, or a schema of a catalog that Spark is told of."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) and not path.lower().startswith("file:"):
        return True
    catalog = re.fullmatch(r"([A-Za-z_]\w*)\.[A-Za-z_]\w*", path)
    if catalog is None or os.path.exists(path):
        return False
    settings = os.environ.get("APPORTION_SPARK_CONF", "")
    return catalog[1] == "spark_catalog" or f"spark.sql.catalog.{catalog[1]}=" in settings.replace(" ", "")


def choose(args: argparse.Namespace) -> None:
    """Refuse a file beside an option for a live cluster, which would mean nothing."""
    for name in CONNECTION:
        if args.file is not None and getattr(args, name, None) not in (None, False):
            option = "--" + name.replace("_", "-")
            raise Usage("apportion", f"{args.file!r} and {option} were given: choose a file or a live cluster")


def _reading(path: str) -> AbstractContextManager[progress.Step]:
    """A bar while an input is read; none where it is typed at the terminal."""
    typed = path == "-" and sys.stdin is not None and sys.stdin.isatty()
    return nullcontext(lambda piece: None) if typed else progress.slow(f"reading {called(path)}")


def _is_folder(path: str) -> bool:
    try:
        return path != "-" and os.path.isdir(path)
    except ValueError as error:
        raise Unavailable(f"cannot read {path!r}: {error}.") from None


def _content(path: str) -> bytes:
    with open_bytes(path) as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        needed = "fewer groups at once, one group a line for plan --batch, or tables in a folder"
        raise BadInput(called(path), f"more than {MOST_BYTES:,} bytes", needed)
    return content


def input_name(args: argparse.Namespace) -> str:
    """How a page calls where its groups came from."""
    if args.file and args.file != "-":
        return os.path.basename(os.path.abspath(str(args.file)))
    if args.bootstrap_server:
        return str(args.bootstrap_server)
    return "live cluster" if not args.file and is_live(args) else "standard input"


def as_options(args: argparse.Namespace) -> str:
    """The input as a command line names it, for the next command that is proposed; "" for standard input."""
    if getattr(args, "file", None) is not None:
        return "" if args.file == "-" else shlex.quote(args.file)
    given = [(f"--{name.replace('_', '-')}", getattr(args, name)) for name in CONNECTION if getattr(args, name, None)]
    if not given and is_live(args):
        given = [("--bootstrap-server", connection(args).bootstrap)]
    return " ".join(f"{option} {shlex.quote(value)}" for option, value in given)


def called(path: str) -> str:
    """How errors call an input."""
    return "standard input" if path == "-" else path


def _called(args: argparse.Namespace) -> str:
    """How errors call what the arguments name: a file or folder, standard input, or a cluster."""
    return called(args.file) if args.file else input_name(args)


def open_bytes(path: str) -> AbstractContextManager[IO[bytes]]:
    """A file, or standard input for ``-``; a sentence where it cannot be opened."""
    if path == "-":
        if sys.stdin is None:
            raise Unavailable("standard input is closed: name a file.")
        if sys.stdin.isatty():
            tell("reading from the terminal; Ctrl-D ends it")
        return nullcontext(sys.stdin.buffer)
    try:
        return open(path, "rb")
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot read {path!r}: {getattr(error, 'strerror', None) or error}.") from None


def write_whole(path: str, text: str) -> None:
    """Write a file so that it is there in full or not at all, with the rights that it had; a link is followed.

    What is no file, as a device or a pipe, is written into.
    """
    content = text.encode("utf-8", "backslashreplace")
    try:
        mode = os.stat(path).st_mode if os.path.exists(path) else None
        if mode is not None and not stat.S_ISREG(mode):
            with open(path, "wb") as out:
                out.write(content)
            return
        target = os.path.realpath(path)
        handle, draft = tempfile.mkstemp(prefix=".apportion-", dir=os.path.dirname(target))
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content)
            os.chmod(draft, 0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
            os.replace(draft, target)
        except BaseException:
            os.unlink(draft)
            raise
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot write {path!r}: {getattr(error, 'strerror', None) or error}.") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _standard_input() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise Usage("apportion", "no input: give FILE, - for standard input, or --bootstrap-server with --group")
    return "-"


def is_live(args: argparse.Namespace) -> bool:
    """A way to a server is given, or a group is and the environment or the config file name the server.

    Also an empty one: where a script's variable was not set, standard input was not meant.
    """
    given = [getattr(args, name) for name in CONNECTION]
    if any(option is not None for option in given) or getattr(args, "all_groups", False):
        return True
    from apportion.sources import config

    return bool(args.groups) and config.is_set()


def _live(args: argparse.Namespace) -> list[Sighting]:
    from apportion.sources import live

    everything = getattr(args, "all_groups", False)
    if everything and args.groups:
        raise Usage("apportion", "--group and --all-groups were given: choose one")
    if not everything and not args.groups:
        raise Usage(
            "apportion", "which group? give --group GROUP" + (" or --all-groups" if "all_groups" in args else "")
        )
    server, refused = connection(args), list[str]()
    with progress.slow(f"asking {server.bootstrap}", waits_for=server.bootstrap):
        groups = live.groups(server, None if everything else args.groups, refused=refused)
    if refused:
        them = "it" if len(refused) == 1 else "them"
        tell(f"without {some_of(refused)}: this user may not look at {them} (ACL Describe on the group)")
    return groups


def connection(args: argparse.Namespace) -> Connection:
    """Where the cluster is and how to log in; the client's own log stays silent unless APPORTION_DEBUG is set."""
    import logging

    from apportion.sources import config

    if not os.environ.get("APPORTION_DEBUG"):
        # What matters of it reaches the user as one sentence; the rest would stand between results and errors.
        logging.getLogger("kafka").addHandler(logging.NullHandler())
        logging.getLogger("kafka").propagate = False
    return config.connection(args.bootstrap_server, args.command_config, args.context)
