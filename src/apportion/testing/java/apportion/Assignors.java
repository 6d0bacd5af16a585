package apportion;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Kafka's own assignors on groups in our JSON form: {@code {"assignor": "range", "group": {...}}} a line gives
 * {@code {"assignment": {"member": {"topic": [0, 1]}}}}. What a member owned reaches the assignor as it would in a
 * real group: by the class's own user data, and by the subscription of version 3.
 */
public final class Assignors {
    public static void main(String[] args) throws Exception {
        Lines.answerAll(asked -> answer(asked.get("assignor").asText(), asked.get("group")));
    }

    private static JsonNode answer(String name, JsonNode group) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        group.get("members").fields().forEachRemaining(m ->
            subscriptions.put(m.getKey(), subscription(name, m.getKey(), m.getValue())));
        Map<String, Assignment> given = assignor(name)
            .assign(cluster(group.get("topics")), new GroupSubscription(subscriptions))
            .groupAssignment();
        ObjectNode answer = Lines.JSON.createObjectNode();
        ObjectNode members = answer.putObject("assignment");
        new TreeMap<>(given).forEach((member, assignment) -> put(members.putObject(member), assignment.partitions()));
        return answer;
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException("no assignor is named " + name);
        };
    }

    private static Subscription subscription(String name, String id, JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = partitions(member.path("owned"));
        int generation = member.path("generation").asInt(-1);
        Optional<String> instance = text(member, "instance_id");
        ConsumerPartitionAssignor remembers = assignor(name);
        if (generation >= 0 || !owned.isEmpty())
            remembers.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("", generation, id, instance));
        ByteBuffer userData = remembers.subscriptionUserData(new HashSet<>(topics));
        Subscription subscription = new Subscription(topics, userData, owned, generation, text(member, "rack"));
        subscription.setGroupInstanceId(instance);
        return subscription;
    }

    private static Optional<String> text(JsonNode node, String field) {
        String text = node.path(field).asText("");
        return text.isEmpty() || node.path(field).isNull() ? Optional.empty() : Optional.of(text);
    }

    /** A broker for each rack; a partition whose racks nobody told lies on one without. */
    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new TreeMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            JsonNode described = topic.getValue();
            if (described.isInt())
                for (int p = 0; p < described.asInt(); p++) partitions.add(info(topic.getKey(), p, List.of(""), nodes));
            else
                for (JsonNode one : described) {
                    Set<String> racks = new TreeSet<>();
                    one.path("racks").forEach(rack -> racks.add(rack.asText()));
                    int number = one.get("partition").asInt();
                    partitions.add(info(topic.getKey(), number, racks.isEmpty() ? List.of("") : racks, nodes));
                }
        });
        return new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static PartitionInfo info(String topic, int partition, Iterable<String> racks, Map<String, Node> nodes) {
        List<Node> replicas = new ArrayList<>();
        for (String rack : racks)
            replicas.add(nodes.computeIfAbsent(rack,
                r -> new Node(nodes.size(), "localhost", 9092, r.isEmpty() ? null : r)));
        Node[] all = replicas.toArray(new Node[0]);
        return new PartitionInfo(topic, partition, all[0], all, all);
    }

    static List<TopicPartition> partitions(JsonNode byTopic) {
        List<TopicPartition> all = new ArrayList<>();
        byTopic.fields().forEachRemaining(t ->
            t.getValue().forEach(p -> all.add(new TopicPartition(t.getKey(), p.asInt()))));
        return all;
    }

    static void put(ObjectNode into, Iterable<TopicPartition> partitions) {
        Map<String, TreeSet<Integer>> byTopic = new TreeMap<>();
        for (TopicPartition tp : partitions)
            byTopic.computeIfAbsent(tp.topic(), t -> new TreeSet<>()).add(tp.partition());
        byTopic.forEach((topic, numbers) -> numbers.forEach(into.withArray(topic)::add));
    }
}
