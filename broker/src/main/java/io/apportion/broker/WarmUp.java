package io.apportion.broker;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.zip.Deflater;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * Plans for a group of nobody, applied at the broker's start so that the compiler has seen the code before a group comes.
 *
 * <p>Where nothing is compiled the first plans of a large group take ten times as long, on the coordinator's thread.
 * This takes some tenths of a second, once in a broker's life, on the thread that starts it.
 */
final class WarmUp {
    private static final int ROUNDS = 60;
    private static final int MEMBERS = 500;
    private static final int TOPICS = 8;
    private static final int PARTITIONS = 500;

    private final List<String> members = new ArrayList<>();
    private final Set<Uuid> topics = Set.copyOf(java.util.stream.IntStream.rangeClosed(1, TOPICS).mapToObj(t -> new Uuid(t, t)).toList());
    private GroupOfNobody last = new GroupOfNobody(Map.of());

    /** Go through all that plans may bring, with an assignor whose memory nobody else has. */
    static void through(GovernedAssignor assignor) {
        new WarmUp().run(assignor);
    }

    private void run(GovernedAssignor assignor) {
        for (int m = 0; m < MEMBERS; m++) members.add("warm-up-of-apportion-" + m);
        String body = body();
        for (int round = 1; round <= ROUNDS; round++) {
            int gone = round % 3 == 0 ? MEMBERS / 2 : MEMBERS;  // their partitions stay, are ranked and dealt
            last = group("apportion-plan:2:" + round + ":" + body, gone);
            Map<String, MemberAssignment> given = assignor.assign(last, last).members();
            given.forEach((id, share) -> last.members.computeIfPresent(id, (same, one) -> one.with(share.partitions())));
        }
    }

    /** Everybody but one, with what each had; and the carrier. */
    private GroupOfNobody group(String rack, int gone) {
        Map<String, One> all = new HashMap<>();
        for (int m = 0; m < MEMBERS; m++) {
            One before = last.members.get(members.get(m));
            if (m != gone) all.put(members.get(m), before != null ? before : new One(Optional.empty(), Optional.empty(), topics, Map.of()));
        }
        all.put("carrier", new One(Optional.of(rack), Optional.of("apportion-governor"), Set.of(), Map.of()));
        return new GroupOfNobody(all);
    }

    /** A plan's body: partitions dealt one by one to all members. */
    private String body() {
        ByteBuffer out = ByteBuffer.allocate(64 + 4 * MEMBERS + TOPICS * (20 + 4 * PARTITIONS));
        varint(varint(out, 0).put((byte) 0).putInt(0).putLong(PlanText.carrier("carrier")), 0);
        varint(out, MEMBERS);
        var sha256 = PlanText.sha256();
        for (int m = 0; m < MEMBERS; m++) out.putInt(PlanText.digest(sha256, 0, null, members.get(m)));
        varint(varint(varint(out, 0), 0), TOPICS);
        for (int t = 1; t <= TOPICS; t++) {
            varint(out.putLong(t).putLong(t), PARTITIONS);
            for (int p = 0; p < PARTITIONS; p++) varint(varint(out, 1), (p * 7 + t) % MEMBERS + 1);
        }
        Deflater deflater = new Deflater();
        deflater.setInput(out.array(), 0, out.position());
        deflater.finish();
        ByteArrayOutputStream deflated = new ByteArrayOutputStream();
        byte[] some = new byte[4096];
        while (!deflater.finished()) deflated.write(some, 0, deflater.deflate(some));
        deflater.end();
        return Base64.getUrlEncoder().withoutPadding().encodeToString(deflated.toByteArray());
    }

    private static ByteBuffer varint(ByteBuffer out, int value) {
        for (; value > 0x7F; value >>>= 7) out.put((byte) (value | 0x80));
        return out.put((byte) value);
    }

    private record One(Optional<String> rackId, Optional<String> instanceId, Set<Uuid> subscribedTopicIds,
        Map<Uuid, Set<Integer>> partitions) implements MemberSubscription, MemberAssignment {
        One with(Map<Uuid, Set<Integer>> given) {
            return new One(rackId, instanceId, subscribedTopicIds, given);
        }
    }

    private record GroupOfNobody(Map<String, One> members) implements GroupSpec, SubscribedTopicDescriber {
        @Override public Collection<String> memberIds() {
            return members.keySet();
        }

        @Override public SubscriptionType subscriptionType() {
            return SubscriptionType.HOMOGENEOUS;
        }

        @Override public boolean isPartitionAssigned(Uuid topic, int partition) {
            return true;
        }

        @Override public boolean isPartitionAssignable(Uuid topic, int partition) {
            return true;
        }

        @Override public MemberSubscription memberSubscription(String id) {
            return members.get(id);
        }

        @Override public MemberAssignment memberAssignment(String id) {
            return members.get(id);
        }

        @Override public int numPartitions(Uuid topic) {
            return PARTITIONS;
        }

        @Override public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }
}
