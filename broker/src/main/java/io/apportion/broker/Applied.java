package io.apportion.broker;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;

/**
 * A plan applied to the members that are there now: each partition to exactly one member that wants its topic.
 *
 * <p>To the planned owner where it is there and subscribed, else as the plan's promise says (a topic, or all partitions
 * of one number, to one member), else to the previous owner, else to the first of the rank, else to the least loaded.
 * Members are in the order of their ids, topics in that of their ids as unsigned numbers, ties go to the first: the
 * answer depends on nothing else. Cost: O(P log M + M T), P partitions, M members, T topics.
 */
final class Applied {
    private static final int NOBODY = -1;
    private static final Digests DIGESTS = new Digests(Memory.MEMBERS_MAX);

    int planned;
    int kept;
    int ranked;
    int evenly;

    private final Plan plan;
    private final List<String> members;
    private final GroupSpec group;
    private final int[] load;
    /** Member number of the plan to index of {@link #members}; two members of one digest are both strangers to it. */
    private final int[] present;
    private final List<Uuid> topics = new ArrayList<>();
    private final Map<Uuid, Topic> byId = new HashMap<>();
    /** By the very array of eligible members: topics that the same members want share it. */
    private final Map<int[], PriorityQueue<long[]>> queues = new IdentityHashMap<>();

    /** One wanted topic: who owns each partition, and the members that may. */
    private static final class Topic {
        final int[] owner;
        final boolean[] wants;
        int[] eligible;
        int wanting;
        final Uuid id;
        PriorityQueue<long[]> byLoad;

        Topic(Uuid id, int partitions, int members) {
            this.id = id;
            owner = new int[partitions];
            Arrays.fill(owner, NOBODY);
            wants = new boolean[members];
            eligible = new int[16];
        }
    }

    Applied(Plan plan, List<String> members, GroupSpec group, SubscribedTopicDescriber describer) {
        this.plan = plan;
        this.members = members;
        this.group = group;
        load = new int[members.size()];
        present = new int[plan.members().size()];
        Arrays.fill(present, NOBODY);
        meet(describer);
        followPlan();
        if ((plan.promise() & Plan.TOPICS_WHOLE) != 0) for (Uuid id : topics) holdTopicTogether(byId.get(id));
        if ((plan.promise() & Plan.NUMBERS_WHOLE) != 0) holdNumbersTogether();
        keepPrevious();
        handOut();
    }

    /** Who is there, what they want, and which numbers the plan has for them. */
    private void meet(SubscribedTopicDescriber describer) {
        int[] digests = DIGESTS.of(plan.salt(), members, group);
        boolean[] twice = new boolean[present.length];
        for (int m = 0; m < members.size(); m++) {
            MemberSubscription member = group.memberSubscription(members.get(m));
            Integer number = plan.members().get(digests[m]);
            if (number != null) {
                twice[number] |= present[number] != NOBODY;
                present[number] = m;
            }
            for (Uuid id : member.subscribedTopicIds()) {
                Topic topic = byId.get(id);
                if (topic == null) {
                    topic = new Topic(id, Math.max(0, describer.numPartitions(id)), members.size());
                    byId.put(id, topic);
                    topics.add(id);
                }
                if (topic.wanting == topic.eligible.length) topic.eligible = Arrays.copyOf(topic.eligible, m * 2);
                topic.eligible[topic.wanting++] = m;
                topic.wants[m] = true;
            }
        }
        for (int number = 0; number < present.length; number++) if (twice[number]) present[number] = NOBODY;
        int[] last = null;
        for (Topic topic : byId.values()) {
            topic.eligible = Arrays.copyOf(topic.eligible, topic.wanting);
            if (Arrays.equals(topic.eligible, last)) topic.eligible = last;
            last = topic.eligible;
        }
        topics.sort((a, b) -> {
            int high = Long.compareUnsigned(a.getMostSignificantBits(), b.getMostSignificantBits());
            return high != 0 ? high : Long.compareUnsigned(a.getLeastSignificantBits(), b.getLeastSignificantBits());
        });
    }

    private void followPlan() {
        for (Uuid id : topics) {
            Topic topic = byId.get(id);
            int[] wanted = plan.owners().get(id);
            for (int p = 0; wanted != null && p < Math.min(wanted.length, topic.owner.length); p++) {
                int m = wanted[p] < 0 ? NOBODY : present[wanted[p]];
                if (m != NOBODY && topic.wants[m]) {
                    give(topic, p, m);
                    planned++;
                }
            }
        }
    }

    /** What of a topic has no owner goes where most of it is, or was, or to the first of the rank. */
    private void holdTopicTogether(Topic topic) {
        int holder = most(topic, topic.owner);
        if (holder == NOBODY) holder = most(topic, previous(topic));
        if (holder == NOBODY) holder = firstOfRank(topic);
        if (holder == NOBODY && topic.eligible.length > 0) holder = leastLoaded(topic);
        for (int p = 0; holder != NOBODY && p < topic.owner.length; p++) {
            if (topic.owner[p] == NOBODY) {
                give(topic, p, holder);
                ranked++;
            }
        }
    }

    /** The partitions of one number go to who has one of them, or had, or to the least loaded that wants all these topics. */
    private void holdNumbersTogether() {
        int most = 0;
        for (Topic topic : byId.values()) most = Math.max(most, topic.owner.length);
        Map<Topic, int[]> before = new HashMap<>();
        for (Topic topic : byId.values()) before.put(topic, previous(topic));
        for (int p = 0; p < most; p++) {
            List<Topic> having = new ArrayList<>();
            for (Uuid id : topics) if (p < byId.get(id).owner.length) having.add(byId.get(id));
            int holder = NOBODY;
            for (Topic topic : having) if (holder == NOBODY) holder = topic.owner[p];
            for (Topic topic : having) if (holder == NOBODY) holder = before.get(topic)[p];
            if (holder == NOBODY) holder = leastLoadedOfAll(having);
            for (Topic topic : having) {
                if (holder != NOBODY && topic.owner[p] == NOBODY && topic.wants[holder]) {
                    give(topic, p, holder);
                    ranked++;
                }
            }
        }
    }

    private void keepPrevious() {
        for (Uuid id : topics) {
            Topic topic = byId.get(id);
            if (!wasHeld(topic)) continue;
            int[] before = previous(topic);
            for (int p = 0; p < topic.owner.length; p++) {
                if (topic.owner[p] == NOBODY && before[p] != NOBODY) {
                    give(topic, p, before[p]);
                    kept++;
                }
            }
        }
    }

    private void handOut() {
        for (Uuid id : topics) {
            Topic topic = byId.get(id);
            if (!open(topic)) continue;
            int first = firstOfRank(topic);
            for (int p = 0; p < topic.owner.length; p++) {
                if (topic.owner[p] != NOBODY || topic.eligible.length == 0) continue;
                give(topic, p, first != NOBODY ? first : leastLoaded(topic));
                if (first != NOBODY) ranked++; else evenly++;
            }
        }
    }

    private static boolean open(Topic topic) {
        for (int owner : topic.owner) if (owner == NOBODY) return true;
        return false;
    }

    /** Whether an open partition was anybody's: after a member has left none of its was, and nobody need be asked. */
    private boolean wasHeld(Topic topic) {
        for (int p = 0; p < topic.owner.length; p++) {
            if (topic.owner[p] == NOBODY && group.isPartitionAssigned(topic.id, p)) return true;
        }
        return false;
    }

    /** (partitions,) who had each, of those that are there and want it; the first where two had one. */
    private int[] previous(Topic topic) {
        int[] before = new int[topic.owner.length];
        Arrays.fill(before, NOBODY);
        for (int m : topic.eligible) {
            for (int p : group.memberAssignment(members.get(m)).partitions().getOrDefault(topic.id, Set.of())) {
                if (p >= 0 && p < before.length && before[p] == NOBODY) before[p] = m;
            }
        }
        return before;
    }

    /** Who stands most often among some owners; the first of equals, nobody where nobody does. */
    private int most(Topic topic, int[] owner) {
        int[] count = new int[members.size()];
        int best = NOBODY;
        for (int m : owner) if (m != NOBODY) count[m]++;
        for (int m : topic.eligible) if (count[m] > (best == NOBODY ? 0 : count[best])) best = m;
        return best;
    }

    private int firstOfRank(Topic topic) {
        for (int number : plan.rank()) if (present[number] != NOBODY && topic.wants[present[number]]) return present[number];
        return NOBODY;
    }

    /** The member with fewest partitions: entries of members that got more since are put back with what they have now. */
    private int leastLoaded(Topic topic) {
        if (topic.byLoad == null) topic.byLoad = queues.computeIfAbsent(topic.eligible, this::queue);
        PriorityQueue<long[]> queue = topic.byLoad;
        while (queue.peek()[0] != load[(int) queue.peek()[1]]) {
            long[] stale = queue.poll();
            stale[0] = load[(int) stale[1]];
            queue.add(stale);
        }
        return (int) queue.peek()[1];
    }

    private PriorityQueue<long[]> queue(int[] eligible) {
        PriorityQueue<long[]> fresh = new PriorityQueue<>((a, b) -> Arrays.compare(a, b));
        for (int m : eligible) fresh.add(new long[] {load[m], m});
        return fresh;
    }

    private int leastLoadedOfAll(List<Topic> having) {
        int best = NOBODY;
        for (int m = 0; m < members.size(); m++) {
            boolean wantsAll = !having.isEmpty();
            for (Topic topic : having) wantsAll &= topic.wants[m];
            if (wantsAll && (best == NOBODY || load[m] < load[best])) best = m;
        }
        return best;
    }

    private void give(Topic topic, int p, int member) {
        topic.owner[p] = member;
        load[member]++;
    }

    GroupAssignment assignment() {
        List<Map<Uuid, Set<Integer>>> shares = new ArrayList<>();
        for (int m = 0; m < members.size(); m++) shares.add(new HashMap<>());
        for (Uuid id : topics) {
            int[] owner = byId.get(id).owner;
            int[] count = new int[members.size()];
            for (int m : owner) if (m != NOBODY) count[m]++;
            int[][] numbers = new int[members.size()][];
            for (int p = owner.length - 1; p >= 0; p--) {
                int m = owner[p];
                if (m == NOBODY) continue;
                if (numbers[m] == null) numbers[m] = new int[count[m]];
                numbers[m][--count[m]] = p;
            }
            for (int m = 0; m < numbers.length; m++) if (numbers[m] != null) shares.get(m).put(id, new Numbers(numbers[m]));
        }
        Map<String, MemberAssignment> out = new HashMap<>(members.size() * 2);
        for (int m = 0; m < members.size(); m++) out.put(members.get(m), new GovernedAssignor.Share(shares.get(m)));
        return new GroupAssignment(out);
    }
}
