package io.apportion.broker;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Uuid;

/**
 * A governor's plan: who should own which partition, and who comes next where an owner is gone.
 *
 * @param number  which of two plans is newer
 * @param promise bits of {@link #TOPICS_WHOLE}, {@link #NUMBERS_WHOLE} and {@link #RELEASE}
 * @param salt    goes into the members' digests, so that those of one plan all differ
 * @param carrier digest of the member id of the member that carries its first part
 * @param part    0 for the first part of a plan, which several carriers bear if one rack id cannot hold it
 * @param members digest to number
 * @param ids     digests of all their member ids; static members have another digest in {@code members}
 * @param rank    member numbers, the first to take over first
 * @param owners  topic to the number of each partition's owner, -1 where its previous one stays
 */
record Plan(
    long number, int promise, int salt, long carrier, int part, Map<Integer, Integer> members, Set<Integer> ids, int[] rank,
    Map<Uuid, int[]> owners) {

    static final Plan NONE = new Plan(0, 0, 0, 0, 0, Map.of(), Set.of(), new int[0], Map.of());
    /** Each topic goes to one member as a whole (failover). */
    static final int TOPICS_WHOLE = 1;
    /** Partitions of equal number go to one member (a join of streams). */
    static final int NUMBERS_WHOLE = 2;
    /** The members that it names are let go: they are uniform's again. */
    static final int RELEASE = 4;

    /** A plan that may not be followed, and why. */
    static final class Refused extends Exception {
        private static final long serialVersionUID = 1;

        Refused(String why) {
            super(why, null, false, false);  // no stack trace: hostile text must stay cheap
        }
    }

    boolean released() {
        return (promise & RELEASE) != 0;
    }

    /** This first part together with the others of the same plan. */
    Plan with(List<Plan> parts) {
        Map<Uuid, int[]> all = new HashMap<>(owners);
        for (Plan other : parts) {
            if (other.part != 0 && other.number == number && other.carrier == carrier) all.putAll(other.owners);
        }
        return all.size() == owners.size() ? this : new Plan(number, promise, salt, carrier, part, members, ids, rank, all);
    }
}
