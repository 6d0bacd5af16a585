package io.apportion.broker;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The plan that a group follows, and which of the plans that its members carry may take its place.
 *
 * <p>The problem: an assignor is not told the group's name. Whoever may read a group may join it under any member id, and
 * carry there what was written for another group, or for this one earlier. So a plan must prove that it belongs here.
 *
 * <p>The rule. A carried plan counts if its carrier is the member that the plan names (a copy on another member does not),
 * and if it names each present member that the followed plan names (so it was written by somebody who looked at this
 * group: member ids are random, and no plan of another group has them). A release counts if it names everybody that is
 * present. Of the plans that count, the one with the highest number is followed. No carried plan counts: the followed
 * plan stays. So numbers are compared between members that are in the group now, and a carrier that left has no vote:
 * whoever governs next reads the numbers that are carried, and needs neither a clock nor what its predecessor knew.
 *
 * <p>Why a kept copy of this group's own plans is harmless. Its carrier's id is signed with it. If a plan of another
 * carrier was followed since, that id stands in {@code past}, and never counts again; if not, the number is not newer.
 * Without a key anybody may write any number, so {@code past} would keep out the governor that somebody else has
 * overtaken; there it is not asked.
 *
 * @param plan the plan that was followed last, maybe a release
 * @param past carriers whose plans were followed before, the last {@link #PAST_MAX}
 */
record Followed(Plan plan, Set<Long> past) {
    private static final Logger LOG = LoggerFactory.getLogger(Followed.class);
    private static final Digests DIGESTS = new Digests(Memory.MEMBERS_MAX);
    private static final int PAST_MAX = 64;

    /** What these members follow now; null where they never had a plan. Members are without the carriers. */
    static Followed next(Followed last, List<Plan> parts, boolean signed, List<String> members, GroupSpec group) {
        Plan best = null;
        for (Plan first : parts) {
            if (first.part() != 0) continue;
            String why = last != null && last.plan == first ? null : refusal(last, first, signed, members, group);
            if (why != null) {
                LOG.warn("plan {} is passed over: {}", first.number(), why);
            } else if (best == null || first.number() > best.number()
                || first.number() == best.number() && first.carrier() > best.carrier()) {
                best = first;
            }
        }
        if (best == null) return last;
        Plan whole = best.with(parts);
        if (last != null && last.plan == whole) return last;
        Set<Long> past = new LinkedHashSet<>(last == null ? Set.of() : last.past);
        if (last != null && last.plan.carrier() != whole.carrier()) past.add(last.plan.carrier());
        if (past.size() > PAST_MAX) past.remove(past.iterator().next());
        return new Followed(whole, past);
    }

    private static String refusal(Followed last, Plan plan, boolean signed, List<String> members, GroupSpec group) {
        if (last != null && signed && last.past.contains(plan.carrier())) return "its carrier was followed by another one";
        if (last != null && last.plan.carrier() == plan.carrier() && last.plan.number() > plan.number()) {
            return "its carrier has carried " + last.plan.number() + " since";
        }
        int[] named = DIGESTS.ofIds(plan.salt(), members, group);
        int[] before = last == null ? named : DIGESTS.ofIds(last.plan.salt(), members, group);
        boolean any = members.isEmpty();
        for (int m = 0; m < named.length; m++) {
            boolean names = plan.ids().contains(named[m]);
            any |= names;
            if (!names && plan.released()) return "it does not release " + members.get(m);
            if (!names && last != null && last.plan.ids().contains(before[m])) {
                return "it does not name " + members.get(m) + ", which the plan that is followed names";
            }
        }
        return any ? null : "it names no member of this group";
    }
}
