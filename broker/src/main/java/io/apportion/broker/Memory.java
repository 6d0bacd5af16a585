package io.apportion.broker;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The last plan of each group, found again by its members: an assignor is not told a group's name.
 *
 * <p>A governor that is gone takes the plan along with its membership; with this its promise stays kept while the
 * coordinator stays where it is. The members that were seen longest ago are forgotten first.
 */
final class Memory {
    /** About 20 MB with ids of 36 letters. */
    static final int MEMBERS_MAX = 100_000;

    private final LinkedHashMap<String, Plan> plans;

    Memory(int most) {
        plans = new LinkedHashMap<>(16, 0.75f, true) {
            @Override protected boolean removeEldestEntry(Map.Entry<String, Plan> eldest) {
                return size() > most;
            }
        };
    }

    /** The plan that most of these members last had, the newest of equals; null where none had any. */
    synchronized Plan of(List<String> members) {
        Map<Plan, int[]> votes = new LinkedHashMap<>();
        Plan last = null;
        int[] count = null;
        for (String member : members) {
            Plan plan = plans.get(member);
            if (plan == null) continue;
            if (plan != last) count = votes.computeIfAbsent(plan, fresh -> new int[1]);
            last = plan;
            count[0]++;
        }
        Plan best = null;
        for (Plan plan : votes.keySet()) {
            int more = best == null ? 1 : votes.get(plan)[0] - votes.get(best)[0];
            if (more > 0 || more == 0 && plan.number() > best.number()) best = plan;
        }
        return best;
    }

    synchronized void keep(List<String> members, Plan plan) {
        for (String member : members) plans.put(member, plan);
    }

    synchronized void forget(List<String> members) {
        for (String member : members) plans.remove(member);
    }
}
