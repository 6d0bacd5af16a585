package io.apportion.broker;

import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;

/**
 * A governor's plan: who should own which partition, and who comes next where an owner is gone.
 *
 * @param number  which of two plans is newer
 * @param promise bits of {@link #TOPICS_WHOLE} and {@link #NUMBERS_WHOLE}
 * @param salt    goes into the members' digests, so that those of one plan all differ
 * @param members digest to number
 * @param rank    member numbers, the first to take over first
 * @param owners  topic to the number of each partition's owner, -1 where its previous one stays
 */
record Plan(
    long number, int promise, int salt, Map<Integer, Integer> members, int[] rank, Map<Uuid, int[]> owners) {

    static final Plan NONE = new Plan(0, 0, 0, Map.of(), new int[0], Map.of());
    /** Each topic goes to one member as a whole (failover). */
    static final int TOPICS_WHOLE = 1;
    /** Partitions of equal number go to one member (a join of streams). */
    static final int NUMBERS_WHOLE = 2;

    /** A plan that may not be followed, and why. */
    static final class Refused extends Exception {
        private static final long serialVersionUID = 1;

        Refused(String why) {
            super(why, null, false, false);  // no stack trace: hostile text must stay cheap
        }
    }

    /** The governor let the group go: it is uniform's again. */
    boolean released() {
        return members.isEmpty();
    }

    /** One plan of the parts that several carriers bear: everything of the newest number. */
    static Plan newest(List<Plan> parts) {
        Plan newest = parts.stream().max(Comparator.comparingLong(Plan::number)).orElseThrow();
        if (parts.size() == 1) return newest;
        Map<Uuid, int[]> owners = new HashMap<>(newest.owners);
        for (Plan part : parts) {
            if (part.number == newest.number && part.members.equals(newest.members)) owners.putAll(part.owners);
        }
        return new Plan(newest.number, newest.promise, newest.salt, newest.members, newest.rank, owners);
    }

    // Plans are compared as objects: equal ones that were read twice may count apart.
    @Override public boolean equals(Object other) {
        return this == other;
    }

    @Override public int hashCode() {
        return Long.hashCode(number);
    }
}
