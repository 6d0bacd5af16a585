import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMemberMetadataValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue.TopicPartition;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own group coordinator on groups in our JSON form, one a line: its group, its target builder, its assignors.
 *
 * Members are put in the order of "joins"; a member's previous target is read from a record of key type 7 whose lists
 * stand in the order of the group.
 */
public class GroupCoordinator {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] none) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(JSON.readTree(line), answer);
            } catch (Throwable refused) {
                answer = JSON.createObjectNode().put("error", String.valueOf(refused));
            }
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
    }

    static void answer(JsonNode asked, ObjectNode answer) {
        JsonNode raw = asked.get("group");
        Topics topics = new Topics(raw);
        ConsumerGroup group = new ConsumerGroup(new LogContext(), new SnapshotRegistry(new LogContext()), "g");
        for (JsonNode id : asked.get("joins")) join(group, id.asText(), raw.get("members").get(id.asText()), topics);
        ConsumerGroupPartitionAssignor assignor =
            asked.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, MemberAssignment> target = new ConsumerTargetAssignmentBuilder("g", 7, assignor)
            .withTime(Time.SYSTEM)
            .withMembers(group.members())
            .withStaticMembers(group.staticMembers())
            .withSubscriptionType(group.subscriptionType())
            .withTargetAssignment(group.targetAssignment())
            .withInvertedTargetAssignment(group.invertedTargetAssignment())
            .withMetadataImage(topics)
            .build()
            .targetAssignment();
        ObjectNode members = answer.putObject("assignment");
        new TreeMap<>(target).forEach((id, given) -> {
            ObjectNode mine = members.putObject(id);
            Map<String, TreeSet<Integer>> named = new TreeMap<>();
            given.partitions().forEach((topic, ids) -> named.put(topics.names.get(topic), new TreeSet<>(ids)));
            named.forEach((topic, ids) -> ids.forEach(mine.withArray(topic)::add));
        });
    }

    static void join(ConsumerGroup group, String id, JsonNode member, Topics topics) {
        List<String> names = new ArrayList<>();
        member.get("topics").forEach(name -> names.add(name.asText()));
        Collections.sort(names);
        String instance = member.path("instance_id").asText(null);
        group.updateMember(new ConsumerGroupMember.Builder(id).updateWith(
            new ConsumerGroupMemberMetadataValue().setSubscribedTopicNames(names).setInstanceId(instance)
                .setClientId("c").setClientHost("h").setRackId(member.path("rack").asText(null))
        ).build());
        List<TopicPartition> held = new ArrayList<>();
        member.path("owned").fields().forEachRemaining(topic -> {
            List<Integer> ids = new ArrayList<>();
            topic.getValue().forEach(p -> ids.add(p.asInt()));
            held.add(new TopicPartition().setTopicId(topics.id(topic.getKey())).setPartitions(ids));
        });
        if (!held.isEmpty()) group.updateTargetAssignment(
            id, Assignment.fromRecord(new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(held)));
    }

    /** The cluster's topics, as the coordinator asks for them; an id that no topic has is another's. */
    static class Topics implements CoordinatorMetadataImage {
        final Map<String, Uuid> ids = new HashMap<>();
        final Map<Uuid, String> names = new HashMap<>();
        final Map<String, Integer> sizes = new HashMap<>();

        Topics(JsonNode group) {
            group.get("topic_ids").fields().forEachRemaining(t -> ids.put(t.getKey(), Uuid.fromString(t.getValue().asText())));
            ids.forEach((name, id) -> names.put(id, name));
            group.get("topics").fields().forEachRemaining(t -> sizes.put(t.getKey(), t.getValue().isInt() ? t.getValue().asInt() : t.getValue().size()));
        }

        Uuid id(String name) {
            return ids.computeIfAbsent(name, gone -> new Uuid(gone.hashCode(), 1));
        }

        public Set<Uuid> topicIds() { return Set.copyOf(names.keySet()); }
        public Set<String> topicNames() { return sizes.keySet(); }
        public Optional<TopicMetadata> topicMetadata(String name) {
            return sizes.containsKey(name) ? Optional.of(new One(name)) : Optional.empty();
        }
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return names.containsKey(id) ? topicMetadata(names.get(id)) : Optional.empty();
        }
        public CoordinatorMetadataDelta emptyDelta() { throw new UnsupportedOperationException(); }
        public long version() { return 1; }
        public boolean isEmpty() { return sizes.isEmpty(); }

        class One implements TopicMetadata {
            final String name;
            One(String name) { this.name = name; }
            public String name() { return name; }
            public Uuid id() { return ids.get(name); }
            public int partitionCount() { return sizes.get(name); }
            public List<String> partitionRacks(int p) { return List.of(); }
        }
    }
}
