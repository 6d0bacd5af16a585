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
from functools import cached_property
from typing import IO, TYPE_CHECKING, Final

from apportion.cli import progress
from apportion.cli.output import tell
from apportion.cli.parser import Parser, Usage
from apportion.errors import BadInput, MissingExtra, Unavailable, within
from apportion.model.protocols import SHARE
from apportion.wording import count, some_of

if TYPE_CHECKING:
    from apportion.history.group_history import GroupHistories, GroupHistory
    from apportion.history.time_window import GroupTime
    from apportion.model.group import Group
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


def add_checkpoints(parser: Parser) -> None:
    """``--checkpoint``: Spark's streaming queries, which are no groups."""
    parser.add_argument(
        "--checkpoint", metavar="DIR", dest="checkpoints", action="append", default=[],
        help="a Spark streaming query, by its checkpoint folder on this machine; may be given more than once",
    )  # fmt: skip


def add_subscribe(parser: Parser) -> None:
    """``--subscribe``: the members' topics, if a text does not name them."""
    parser.add_argument(
        "--subscribe", metavar="[MEMBER=]TOPIC,...", dest="subscriptions", action="append", default=[],
        help="the topics of all members, or of one, for a text without subscriptions; may be given more than once",
    )  # fmt: skip


def add_connection(parser: Parser) -> None:
    """How to reach a live cluster; missing options come from the environment or the config file's context."""
    live = parser.add_argument_group("live cluster")
    live.add_argument("--bootstrap-server", metavar="HOST:PORT", help="or APPORTION_BOOTSTRAP_SERVER")
    live.add_argument("--command-config", metavar="FILE", help="Kafka client properties (SASL, TLS); never printed")
    live.add_argument("--context", metavar="NAME", help="a context of the config file; or APPORTION_CONTEXT")


@dataclass(frozen=True)
class OverTime:
    """One group over time.

    group
        As it was at the last look.
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

    group: Group
    series: AllSeries
    window_s: float
    held_since_ms: int | None = None
    now_ms: int | None = None
    rebalanced_at_ms: Sequence[int] | None = None
    timed: bool = True

    def lag_in_time(self, with_speeds: bool = False) -> GroupTime:
        """Its lag in time, and the speeds of its members if they are asked for."""
        from apportion.history.time_window import group_time

        return group_time(self.group, self.series, self.window_s, self.held_since_ms, self.now_ms, with_speeds)


class Source:
    """Where a command's groups come from: a text, a folder, a live cluster, or two listings, with the same methods.

    name, title
        How errors and how pages call it.
    folder
        The dump or the tables that it is, on this machine; None for another source.
    live, timed
        Whether it is a cluster; whether the seconds of ``over_time`` are known.
    pair
        Two listings as a command line names them; "" of another source.
    """

    folder: str | None = None
    live, timed, pair = False, True, ""

    def __init__(self, args: argparse.Namespace, path: str = "-") -> None:
        self.args, self.path = args, path
        file: str | None = None if args.file == "-" else args.file
        self.name = "standard input" if file is None else file
        self.title = self.name if file is None else os.path.basename(os.path.abspath(file))

    @property
    def options(self) -> str:
        """How a command line names it, for the next command that is proposed; "" for standard input."""
        return "" if self.args.file == "-" or self.args.file is None else shlex.quote(self.args.file)

    @staticmethod
    def of(args: argparse.Namespace) -> Source:
        """The source that the arguments name; a file next to an option for a live cluster would mean nothing."""
        for name in CONNECTION:
            if args.file is not None and getattr(args, name, None) not in (None, False):
                option = "--" + name.replace("_", "-")
                raise Usage("apportion", f"{args.file!r} and {option} were given: choose a file or a live cluster")
        if args.file is None and is_live(args):
            return LiveCluster(args)
        if getattr(args, "later", None) is not None:
            return Listings(args)
        path = at_hand(args.file, args.groups) if args.file is not None else _standard_input()
        return Folder(args, path) if _is_folder(path) else Text(args, path)

    def many(self, whole: bool = True) -> list[Sighting]:
        """The groups that the arguments mean, at least one; of a text, see ``sniff.groups_in`` for ``whole``."""
        from apportion.sources import sniff

        return sniff.chosen(self._sightings(whole), self.args.groups)

    def _sightings(self, whole: bool) -> list[Sighting]:
        raise NotImplementedError

    def one(self) -> Sighting:
        """The one group that the arguments mean, to be planned; a share group is none that can be."""
        from apportion.sources import sniff

        return self.plannable(sniff.the_one(self.many(), self.name))

    def plan_or_group(self, whole: bool = True) -> SavedPlan | Sighting:
        """The plan.json that it holds, else its one group; see ``plannable`` for ``whole``."""
        return self.one()

    def over_time(
        self, groups: Sequence[Sighting], window_s: float | None, rebalances: bool = False
    ) -> Iterator[OverTime] | None:
        """Each group's commits and log ends over time; None for a text, which shows one moment only.

        rebalances
            Of a live cluster read meanwhile what ``__consumer_offsets`` tells of rebalances.
        """
        return None

    def history(self, group: str) -> GroupHistory | None:
        """A group's history in a dump or tables; None for another source, which knows the present alone."""
        return None

    def plannable(self, sighting: Sighting, whole: bool = True) -> Sighting:
        """The group, with the subscriptions that --subscribe states, if its source says enough to plan it.

        whole
            Whether a source of which something was left out is refused here.
        """
        refuse_share(sighting.name, sighting.protocol)
        self.refuse_unnamed(sighting)
        if whole:
            self.refuse_parts(sighting)
        if not sighting.group.M:
            needed = "at least one: there is no member to plan for"
            raise BadInput(self.name, f"no member at all in group {sighting.name!r}", needed)
        if getattr(self.args, "subscriptions", None):
            from apportion.sources.subscribing import subscribed

            sighting = subscribed(sighting, self.args.subscriptions)
        return sighting

    def refuse_parts(self, sighting: Sighting) -> None:
        """A plan or a gate of a part of a group would say nothing of the whole."""
        if sighting.gaps:
            more = f" and {len(sighting.gaps) - 1:,} more such" if len(sighting.gaps) > 1 else ""
            needed = "the whole output, without lines between the rows"
            raise BadInput(self.name, f"a text of which not all was read: {sighting.gaps[0]}{more}", needed)

    def refuse_contradiction(self, sighting: Sighting) -> None:
        """A gate that passed on a text that contradicts itself would judge figures that may be wrong."""
        if sighting.contradiction:
            needed = "a listing whose LAG is LOG-END-OFFSET less CURRENT-OFFSET"
            raise BadInput(self.name, f"a text that contradicts itself: {sighting.contradiction}", needed)

    def refuse_unnamed(self, sighting: Sighting) -> None:
        """A text that counts each member's partitions and names none is no group to be judged: it would seem empty."""
        if sighting.unnamed_partitions and not sighting.group.P:
            held = f"members of {sighting.name!r} that hold {sighting.unnamed_partitions:,} partitions, but not which"
            raise BadInput(self.name, held, "what --describe, or --describe --members --verbose, prints")
        if not sighting.owners_told:
            raise BadInput(
                self.name, f"a table of {sighting.name!r} that does not show which member reads",
                "the column CONSUMER-ID, as --describe prints it, or another tool's list of members",
            )  # fmt: skip


class Text(Source):
    """A file, or standard input: group.json, or the output of a tool."""

    def _sightings(self, whole: bool) -> list[Sighting]:
        from apportion.sources import sniff

        with self._reading():
            return sniff.groups_in(_content(self.path), called(self.path), whole)

    def plan_or_group(self, whole: bool = True) -> SavedPlan | Sighting:
        """As of every source."""
        from apportion.sources import sniff

        with self._reading():
            content = _content(self.path)
            saved = _plan_in(content, called(self.path))
            if saved is not None:
                return saved
            groups = sniff.chosen(sniff.groups_in(content, called(self.path), whole), self.args.groups)
        return self.plannable(sniff.the_one(groups, called(self.path)), whole)

    def _reading(self) -> AbstractContextManager[progress.Step]:
        """A bar while it is read; none if it is typed at the terminal."""
        typed = self.path == "-" and sys.stdin is not None and sys.stdin.isatty()
        return nullcontext(lambda piece: None) if typed else progress.slow(f"reading {called(self.path)}")


class Folder(Source):
    """A dump, or the pipeline's tables: each group at its newest records, and its history."""

    def __init__(self, args: argparse.Namespace, path: str) -> None:
        super().__init__(args, path)
        self.folder = path

    @cached_property
    def _histories(self) -> GroupHistories:
        """What it remembers, read once, however much of it a command asks for."""
        from apportion.sources.load_history import load_histories

        with progress.slow(f"reading {self.path}"):
            return load_histories(self.path)

    def _sightings(self, whole: bool) -> list[Sighting]:
        from apportion.sources.load_history import groups_of

        histories = self._histories
        with progress.slow(f"reading {self.path}"):
            return groups_of(histories, self.path)

    def history(self, group: str) -> GroupHistory | None:
        """As of every source."""
        return self._histories.group(group)

    def over_time(
        self, groups: Sequence[Sighting], window_s: float | None, rebalances: bool = False
    ) -> Iterator[OverTime] | None:
        """As of every source; it is read once for all groups."""
        from apportion.model.lag import WINDOW_S
        from apportion.sources.series import FolderSeries

        window_s = window_s or WINDOW_S
        with progress.slow(f"reading the commits of {self.path}"):
            series = FolderSeries(self.path, {each.name: each.group.topics for each in groups}, window_s)

        def known(sighting: Sighting) -> OverTime:
            group = self._histories.group(sighting.name)
            generations = group.folded.generations
            held_since_ms = generations[-1].at if generations else None
            at_ms = [rebalance.at for rebalance in group.rebalances]
            return OverTime(
                sighting.group, series.of(sighting.group), window_s, held_since_ms, series.now_ms or None, at_ms
            )

        return map(known, groups)


class LiveCluster(Source):
    """A cluster that is asked."""

    live = True

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self.name = self.title = args.bootstrap_server or "live cluster"

    @property
    def options(self) -> str:
        """As of every source."""
        return reach(self.args)

    def many(self, whole: bool = True) -> list[Sighting]:
        """As of every source; groups that this user may not look at are left out, with a word."""
        from apportion.sources import live

        args, everything = self.args, getattr(self.args, "all_groups", False)
        if everything and args.groups:
            raise Usage("apportion", "--group and --all-groups were given: choose one")
        checkpoints = getattr(args, "checkpoints", [])
        if not everything and not args.groups and not checkpoints:
            raise Usage(
                "apportion", "which group? give --group GROUP" + (" or --all-groups" if "all_groups" in args else "")
            )
        server, refused = connection(args), list[str]()
        with progress.slow(f"asking {server.bootstrap}", waits_for=server.bootstrap):
            names = None if everything else args.groups
            groups = live.groups(server, names, refused=refused, checkpoints=checkpoints)
        if refused:
            them = "it" if len(refused) == 1 else "them"
            tell(f"without {some_of(refused)}: this user may not look at {them} (ACL Describe on the group)")
        return groups

    def over_time(
        self, groups: Sequence[Sighting], window_s: float | None, rebalances: bool = False
    ) -> Iterator[OverTime] | None:
        """As of every source; all groups are looked at together, for so many seconds."""
        from concurrent.futures import ThreadPoolExecutor

        from apportion.history.time_window import as_of_last_look
        from apportion.sources import series

        window_s, names = window_s or 10, [sighting.name for sighting in groups]
        tell(f"looking at {'the group' if len(groups) == 1 else count(len(groups), 'group')} for {window_s:g} s")
        with ThreadPoolExecutor(1) as pool:
            past = pool.submit(self._rebalanced, names) if rebalances else None
            leave_out = getattr(self.args, "all_groups", False)
            series_of = series.of_cluster(connection(self.args), names, window_s, leave_out=leave_out)
            at_ms: Mapping[str, Sequence[int]] = {} if past is None else past.result()

        def known(sighting: Sighting) -> OverTime:
            name, of_group = sighting.name, series_of[sighting.name]
            group = as_of_last_look(sighting.group, of_group)
            return OverTime(group, of_group, window_s, rebalanced_at_ms=at_ms.get(name))

        return map(known, groups)

    def _rebalanced(self, names: Sequence[str]) -> Mapping[str, Sequence[int]]:
        """When groups rebalanced, as far as their records may be read."""
        from apportion.sources.cluster import connect
        from apportion.sources.generations import rebalanced_at

        server = connection(self.args)
        try:
            with connect(server.bootstrap, server.properties) as cluster:
                return rebalanced_at(cluster, server, names)
        except Unavailable as why:
            tell(f"no rebalances: {why}")
            return {}


class Listings(Source):
    """Two listings of the same groups, the later one with the facts about time that both give.

    apart_s
        Seconds between them: --window, or by the files' own times, if these are seconds to a day apart; None unknown.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        paths = [args.file, args.later]
        apart_s: float | None = args.window
        if apart_s is None and all(path != "-" and os.path.isfile(path) for path in paths):
            by_files = os.path.getmtime(args.later) - os.path.getmtime(args.file)
            apart_s = by_files if 1 <= by_files <= DAY_S else None
        self.apart_s, self.timed = apart_s, apart_s is not None
        both = f"{shlex.quote(args.file)} {shlex.quote(args.later)}"
        self.pair = f"{both} --window {apart_s:.6g}" if apart_s else both
        self.before: Sequence[Sighting] = ()

    @property
    def options(self) -> str:
        """As of every source: the later one."""
        return shlex.quote(self.args.later)

    def many(self, whole: bool = True) -> list[Sighting]:
        """The groups of the later one. BadInput: it is older than the first, by its logs' ends."""
        args = self.args
        self.before, after = (
            Source.of(argparse.Namespace(**{**vars(args), "file": file, "later": None})).many(whole)
            for file in (args.file, args.later)
        )
        if went_back := _went_back(self.before, after):
            needed = f"the earlier listing first: apportion describe {shlex.quote(args.later)} {shlex.quote(args.file)}"
            raise BadInput(called(args.later), f"a listing older than {called(args.file)}: {went_back}", needed)
        return after

    def over_time(
        self, groups: Sequence[Sighting], window_s: float | None, rebalances: bool = False
    ) -> Iterator[OverTime] | None:
        """Each later group's commits and log ends at both moments."""
        from apportion.sources.series import of_looks

        seconds = self.apart_s or UNTIMED_S
        at_ms = round(seconds * 1000)
        series = of_looks([(0, self.before), (at_ms, groups)])
        return (OverTime(each.group, series[each.name], seconds, now_ms=at_ms, timed=self.timed) for each in groups)


def assumptions(sighting: Sighting) -> list[str]:
    """A sentence for each assumption of a plan that the source leaves open; empty if it leaves none."""
    if not sighting.assumed:
        return []
    return [f"This rests on subscriptions that are assumed. {sighting.assumed} You can state them with --subscribe."]


def refuse_share(group: str, protocol: str | None) -> None:
    """No member owns a partition of a share group, so that there is nothing to plan."""
    if protocol == SHARE:
        raise BadInput("group", f"{group!r}, a share group, whose partitions have no owners", "another kind of group")


def _went_back(before: Sequence[Sighting], after: Sequence[Sighting]) -> str:
    """A log whose end is lower in the later listing, if none is higher: only a topic that was recreated goes back."""
    from apportion.arrays import UNKNOWN

    def ends(groups: Sequence[Sighting]) -> dict[tuple[str, int], int]:
        with_offsets = ((each.group, each.group.offsets) for each in groups)
        rows = ((g, p, end) for g, o in with_offsets if o is not None for p, end in enumerate(o.end.tolist()))
        return {group.name_of(p): end for group, p, end in rows if end != UNKNOWN}

    first, last = ends(before), ends(after)
    both = [(place, first[place], last[place]) for place in first.keys() & last.keys()]
    if not both or any(new > old for _, old, new in both):
        return ""
    back = sorted((place, old, new) for place, old, new in both if new < old)
    return f"{back[0][0][0]}-{back[0][0][1]} ends at {back[0][2]:,} here and at {back[0][1]:,} there" if back else ""


def _plan_in(content: bytes, name: str) -> SavedPlan | None:
    """The plan.json in a text, None if it is something else."""
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


def at_hand(path: str, groups: Sequence[str] = ()) -> str:
    """A path that is on this machine: itself, or a folder with a copy of the content of a URI or a catalog's schema.

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
    """Whether it is not on this machine: a URI, or a schema of a catalog that Spark knows."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) and not path.lower().startswith("file:"):
        return True
    catalog = re.fullmatch(r"([A-Za-z_]\w*)\.[A-Za-z_]\w*", path)
    if catalog is None or os.path.exists(path):
        return False
    settings = os.environ.get("APPORTION_SPARK_CONF", "")
    return catalog[1] == "spark_catalog" or f"spark.sql.catalog.{catalog[1]}=" in settings.replace(" ", "")


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


def reach(args: argparse.Namespace) -> str:
    """How a command line names the cluster that the arguments reach."""
    given = [(f"--{name.replace('_', '-')}", getattr(args, name)) for name in CONNECTION if getattr(args, name, None)]
    given = given or [("--bootstrap-server", connection(args).bootstrap)]
    return " ".join(f"{option} {shlex.quote(value)}" for option, value in given)


def called(path: str) -> str:
    """How errors call an input."""
    return "standard input" if path == "-" else path


def open_bytes(path: str) -> AbstractContextManager[IO[bytes]]:
    """A file, or standard input for ``-``; a sentence if it cannot be opened."""
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
    asked = getattr(args, "all_groups", False) or getattr(args, "checkpoints", [])
    if asked or any(option is not None for option in given):
        return True
    from apportion.sources import config

    return bool(args.groups) and config.is_set()


def connection(args: argparse.Namespace) -> Connection:
    """Where the cluster is and how to log in; the client's own log stays off unless APPORTION_DEBUG is set."""
    import logging

    from apportion.sources import config

    if not os.environ.get("APPORTION_DEBUG"):
        # What matters of it reaches the user as one sentence; the rest would stand between results and errors.
        logging.getLogger("kafka").addHandler(logging.NullHandler())
        logging.getLogger("kafka").propagate = False
    return config.connection(args.bootstrap_server, args.command_config, args.context)
