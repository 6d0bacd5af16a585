import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

/**
 * Times Kafka's CooperativeStickyAssignor on a group in our JSON form: {@code Bench GROUP.json CALLS SECONDS [bytes]} prints
 * {@code {"first_ms": .., "cpu_ms": [..], "wall_ms": [..], "assignment": {..}}}. The first call finds nothing warm.
 * With {@code bytes} a call is the leader's whole one: what members sent is read, planned, and the answers are written.
 * Milliseconds are CPU time of the planning thread; the collector and the compiler work beside it. The
 * assignment is that of StickyAssignor: the same plan with nothing withheld for a round.
 */
public final class Bench {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        JsonNode group = JSON.readTree(new File(args[0]));
        int calls = Integer.parseInt(args[1]);
        boolean bytes = args.length > 3 && args[3].equals("bytes");
        long until = 0;
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        ObjectNode out = JSON.createObjectNode();
        Cluster cluster = cluster(group.get("topics"));
        for (int call = 0; call < calls && (call == 0 || System.nanoTime() < until); call++) {
            Map<String, Subscription> joining = subscriptions(group.get("members"), new CooperativeStickyAssignor());
            Map<String, ByteBuffer> sent = bytes ? sent(joining) : null;
            ConsumerPartitionAssignor assignor = new CooperativeStickyAssignor();
            long began = System.nanoTime(), at = threads.getCurrentThreadCpuTime();
            if (bytes)
                answer(cluster, sent, assignor);
            else
                assignor.assign(cluster, new GroupSubscription(joining));
            double cpu = (threads.getCurrentThreadCpuTime() - at) / 1e6, wall = (System.nanoTime() - began) / 1e6;
            if (call == 0) {
                out.put("first_ms", cpu).put("first_wall_ms", wall);
                until = System.nanoTime() + (long) (Double.parseDouble(args[2]) * 1e9);
            } else {
                out.withArray("/cpu_ms").add(cpu);
                out.withArray("/wall_ms").add(wall);
            }
        }
        ObjectNode members = out.putObject("assignment");
        GroupSubscription all = new GroupSubscription(subscriptions(group.get("members"), new StickyAssignor()));
        new StickyAssignor().assign(cluster, all).groupAssignment()
            .forEach((member, given) -> put(members.putObject(member), given.partitions()));
        System.out.println(JSON.writeValueAsString(out));
    }

    /** What every member says, made afresh: the assignors keep and change what they are given. */
    private static Map<String, Subscription> subscriptions(JsonNode members, ConsumerPartitionAssignor name)
        throws Exception {
        Map<String, Subscription> all = new HashMap<>();
        Map<JsonNode, List<String>> lists = new HashMap<>();
        for (var entry : members.properties()) {
            JsonNode member = entry.getValue();
            List<String> topics = lists.computeIfAbsent(member.get("topics"), Bench::strings);
            List<TopicPartition> owned = new ArrayList<>();
            for (var topic : member.path("owned").properties())
                topic.getValue().forEach(p -> owned.add(new TopicPartition(topic.getKey(), p.asInt())));
            int generation = member.path("generation").asInt(-1);
            Optional<String> rack = Optional.ofNullable(member.path("rack").asText(null));
            ConsumerPartitionAssignor mind = name.getClass().getDeclaredConstructor().newInstance();
            if (!owned.isEmpty())
                mind.onAssignment(new Assignment(owned),
                    new ConsumerGroupMetadata("", generation, entry.getKey(), Optional.empty()));
            all.put(entry.getKey(), new Subscription(topics, mind.subscriptionUserData(new HashSet<>(topics)), owned,
                generation, rack));
        }
        return all;
    }

    /** What every member sends when it joins. */
    private static Map<String, ByteBuffer> sent(Map<String, Subscription> joining) {
        Map<String, ByteBuffer> all = new HashMap<>();
        joining.forEach((member, subscription) ->
            all.put(member, ConsumerProtocol.serializeSubscription(subscription)));
        return all;
    }

    /** The leader's call as ConsumerCoordinator makes it: from what members sent to what each is sent. */
    private static Map<String, ByteBuffer> answer(Cluster cluster, Map<String, ByteBuffer> sent,
        ConsumerPartitionAssignor assignor) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        Set<String> topics = new HashSet<>();
        sent.forEach((member, bytes) -> {
            Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes);
            subscriptions.put(member, subscription);
            topics.addAll(subscription.topics());
        });
        Map<String, ByteBuffer> answers = new HashMap<>();
        assignor.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment()
            .forEach((member, given) -> answers.put(member, ConsumerProtocol.serializeAssignment(given)));
        return answers;
    }

    private static List<String> strings(JsonNode array) {
        List<String> all = new ArrayList<>();
        array.forEach(one -> all.add(one.asText()));
        return all;
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new TreeMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (var topic : topics.properties())
            if (topic.getValue().isInt())
                for (int p = 0; p < topic.getValue().asInt(); p++)
                    partitions.add(info(topic.getKey(), p, List.of(""), nodes));
            else
                topic.getValue().forEach(row ->
                    partitions.add(info(topic.getKey(), row.get("partition").asInt(), strings(row.get("racks")), nodes)));
        return new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static PartitionInfo info(String topic, int partition, List<String> racks, Map<String, Node> nodes) {
        Node[] all = racks.stream()
            .map(rack -> nodes.computeIfAbsent(rack,
                r -> new Node(nodes.size(), "localhost", 9092, r.isEmpty() ? null : r)))
            .toArray(Node[]::new);
        return new PartitionInfo(topic, partition, all[0], all, all);
    }

    private static void put(ObjectNode into, List<TopicPartition> partitions) {
        partitions.forEach(tp -> into.withArray("/" + tp.topic()).add(tp.partition()));
    }
}
