package io.apportion.broker;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What each group follows, found again by its members: an assignor is not told a group's name.
 *
 * <p>A governor that is gone takes the plan along with its membership; with this its promise stays kept while the
 * coordinator stays where it is. Members are told apart as objects, not by their text. The coordinator makes one String
 * for the id of a member that joins (or that it loads), and hands out the same String as long as the member is there
 * (Kafka, {@code TargetAssignmentBuilder.build}: the keys of the group's members). Clients choose their ids: a member of
 * another group may have the same text, but never the same String, so no group can write or read what another follows.
 * Should a Kafka make its Strings anew for each call, then nothing is found and {@code uniform} decides, as after a
 * broker's start; the tests on brokers would show it.
 *
 * <p>The members that were seen longest ago are forgotten first.
 */
final class Memory {
    /** About 20 MB with ids of 36 letters. */
    static final int MEMBERS_MAX = 100_000;

    private final LinkedHashMap<Same, Followed> followed;

    private record Same(String member) {
        @Override public boolean equals(Object other) {
            return other instanceof Same && ((Same) other).member == member;
        }

        @Override public int hashCode() {
            return System.identityHashCode(member);
        }
    }

    Memory(int most) {
        followed = new LinkedHashMap<>(16, 0.75f, true) {
            @Override protected boolean removeEldestEntry(Map.Entry<Same, Followed> eldest) {
                return size() > most;
            }
        };
    }

    /** What these members follow; null where none ever had a plan. Newcomers follow nothing yet, all others the same. */
    synchronized Followed of(List<String> members) {
        for (String member : members) {
            Followed last = followed.get(new Same(member));
            if (last != null) return last;
        }
        return null;
    }

    synchronized void keep(List<String> members, Followed what) {
        for (String member : members) followed.put(new Same(member), what);
    }
}
