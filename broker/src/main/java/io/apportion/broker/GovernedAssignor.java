package io.apportion.broker;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gives partitions as a governor's plan says, which comes through the group: in the rack id of a member that takes nothing.
 *
 * <p>It runs on the coordinator's threads, so it never waits, opens nothing and throws nothing while it assigns. A group
 * that never had a plan gets Kafka's own {@code uniform}; a plan that cannot be read or may not be trusted is passed over.
 * Which plan belongs to a group is argued in {@link Followed} and {@link Memory}.
 *
 * <p>Broker properties: {@code apportion.plan.key.file}, a file whose content signs plans (HMAC-SHA256; read once, at
 * the broker's start); without it {@code apportion.plan.carriers}, instance ids that may carry plans, with commas between
 * (default {@code apportion-governor}), each of them with {@code -2} and so on behind it too.
 */
public final class GovernedAssignor implements ConsumerGroupPartitionAssignor, Configurable {
    /** What members ask for with {@code group.remote.assignor}. */
    public static final String NAME = "apportion";
    public static final String KEY_FILE = "apportion.plan.key.file";
    public static final String CARRIERS = "apportion.plan.carriers";

    private static final Logger LOG = LoggerFactory.getLogger(GovernedAssignor.class);
    private static final AtomicBoolean WARNED = new AtomicBoolean();
    private static final AtomicBoolean WARM = new AtomicBoolean();
    /** Kafka makes some dozen instances of each assignor, and any of them may be asked: what is remembered is shared. */
    private static final Memory SHARED = new Memory(Memory.MEMBERS_MAX);

    /** Rack ids whose plans are kept as they were read: at most 2 MB an instance. */
    private static final int READ_MAX = 32;

    private final ConsumerGroupPartitionAssignor uniform = uniform();
    private final Memory memory;
    private final Map<String, Plan> read = new LinkedHashMap<>(16, 0.75f, true) {
        @Override protected boolean removeEldestEntry(Map.Entry<String, Plan> eldest) {
            return size() > READ_MAX;
        }
    };
    private byte[] key;
    private Set<String> carriers = Set.of("apportion-governor");

    /** As the broker makes it. */
    public GovernedAssignor() {
        this(SHARED);
    }

    GovernedAssignor(Memory memory) {
        this.memory = memory;
    }

    @Override public String name() {
        return NAME;
    }

    @Override public void configure(Map<String, ?> properties) {
        Object file = properties.get(KEY_FILE);
        if (file != null) {
            try {
                key = new String(Files.readAllBytes(Path.of(file.toString()))).strip().getBytes(StandardCharsets.UTF_8);
            } catch (java.io.IOException unreadable) {
                throw new ConfigException(KEY_FILE, file, "the key of plans cannot be read: " + unreadable.getMessage());
            }
            if (key.length < 16) {
                throw new ConfigException(KEY_FILE, file, "the key of plans has " + key.length + " bytes, 16 or more are needed");
            }
        } else if (WARNED.compareAndSet(false, true)) {
            LOG.warn("{} is not set: who may read a group and take an instance id of {} may govern it", KEY_FILE, CARRIERS);
        }
        Object allowed = properties.get(CARRIERS);
        if (allowed != null) {
            carriers = Set.copyOf(Arrays.stream(allowed.toString().split(",")).map(String::strip).toList());
        }
        if (WARM.compareAndSet(false, true)) WarmUp.through(new GovernedAssignor(new Memory(Memory.MEMBERS_MAX)));
    }

    @Override public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) {
        long started = System.nanoTime();
        List<String> members = new ArrayList<>();
        List<Plan> parts = new ArrayList<>();
        List<String> bearers = new ArrayList<>();
        for (String id : group.memberIds()) {
            MemberSubscription member = group.memberSubscription(id);
            String rack = member.rackId().orElse("");
            if (rack.startsWith(PlanText.MARK)) {
                bearers.add(id);
                Plan part = read(rack, id, member.instanceId().orElse(null));
                if (part != null) parts.add(part);
            } else {
                members.add(id);
            }
        }
        members.sort(null);  // as Java compares text, whatever the order of the coordinator's map
        try {
            Followed followed = Followed.next(memory.of(members), parts, key != null, members, group);
            if (followed == null) return withNothingFor(bearers, withoutPlan(members, group, topics));
            memory.keep(members, followed);
            Plan plan = followed.plan();
            if (plan.released()) return withNothingFor(bearers, withoutPlan(members, group, topics));
            Applied applied = new Applied(plan, members, group, topics);
            if (LOG.isDebugEnabled()) {
                LOG.debug("plan {} for {} members: {} planned, {} kept, {} by rank, {} evenly, in {} us", plan.number(),
                    members.size(), applied.planned, applied.kept, applied.ranked, applied.evenly, (System.nanoTime() - started) / 1000);
            }
            return withNothingFor(bearers, applied.assignment());
        } catch (RuntimeException ours) {
            // Whatever is wrong with us must not end a member: librdkafka takes an error of the assignor as fatal.
            LOG.error("the plan could not be applied, this round is uniform's", ours);
            return withNothingFor(bearers, withoutPlan(members, group, topics));
        }
    }

    /** What uniform gives; where it throws (a previous target that cannot be), what is legal of the past, and evenly. */
    private GroupAssignment withoutPlan(List<String> members, GroupSpec group, SubscribedTopicDescriber topics) {
        try {
            return uniform.assign(new Without(group, members), topics);
        } catch (RuntimeException theirs) {
            LOG.warn("uniform threw, partitions stay where they were: {}", theirs.toString());
            return new Applied(Plan.NONE, members, group, topics).assignment();
        }
    }

    private Plan read(String rack, String bearer, String instance) {
        try {
            if (key == null && !mayCarry(instance)) {
                throw new Plan.Refused("the instance id " + instance + " is not one of " + CARRIERS);
            }
            synchronized (read) {
                Plan known = read.get(rack);
                if (known == null) read.put(rack, known = PlanText.read(rack, key));
                if (known.part() == 0 && known.carrier() != PlanText.carrier(bearer)) {
                    throw new Plan.Refused("it was written for another carrier than " + bearer);
                }
                return known;
            }
        } catch (Plan.Refused refused) {
            LOG.warn("a plan is passed over: {}", refused.getMessage());
            return null;
        }
    }

    /** A plan that is longer than a rack id has more carriers: {@code NAME-2}, {@code NAME-3}, and so on. */
    private boolean mayCarry(String instance) {
        return instance != null && (carriers.contains(instance) || carriers.contains(instance.replaceFirst("-[0-9]+$", "")));
    }

    private static GroupAssignment withNothingFor(List<String> bearers, GroupAssignment assignment) {
        Map<String, MemberAssignment> all = new java.util.HashMap<>(assignment.members());
        for (String bearer : bearers) all.put(bearer, new Share(Map.of()));
        return new GroupAssignment(all);
    }

    /** Kafka's own assignor, which stands on every broker's class path but not in the public interface's jar. */
    private static ConsumerGroupPartitionAssignor uniform() {
        try {
            return (ConsumerGroupPartitionAssignor) Class.forName("org.apache.kafka.coordinator.group.assignor.UniformAssignor")
                .getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException gone) {
            throw new ConfigException("this Kafka has no UniformAssignor, which groups without a plan need: " + gone);
        }
    }

    /** What one member is given. */
    record Share(Map<Uuid, Set<Integer>> partitions) implements MemberAssignment { }

    /** The group as uniform sees it: without the members that carry plans. */
    private record Without(GroupSpec group, List<String> members) implements GroupSpec {
        @Override public Collection<String> memberIds() {
            return members;
        }

        @Override public SubscriptionType subscriptionType() {
            Set<Uuid> first = members.isEmpty() ? Set.of() : group.memberSubscription(members.get(0)).subscribedTopicIds();
            for (String id : members) {
                if (!group.memberSubscription(id).subscribedTopicIds().equals(first)) return SubscriptionType.HETEROGENEOUS;
            }
            return SubscriptionType.HOMOGENEOUS;
        }

        @Override public boolean isPartitionAssigned(Uuid topic, int partition) {
            return group.isPartitionAssigned(topic, partition);
        }

        @Override public boolean isPartitionAssignable(Uuid topic, int partition) {
            return group.isPartitionAssignable(topic, partition);
        }

        @Override public MemberSubscription memberSubscription(String id) {
            return group.memberSubscription(id);
        }

        @Override public MemberAssignment memberAssignment(String id) {
            return group.memberAssignment(id);
        }
    }
}
