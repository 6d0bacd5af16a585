import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.apportion.broker.GovernedAssignor;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * GovernedAssignor on groups, one JSON object a line: {"properties", "members": {id: {rack, instance, topics, previous}},
 * "partitions": {topic id: count}, "group"} gives {"assignment", "us"} or {"error"}.
 */
public class Harness {
    public static void main(String[] none) throws Exception {
        var json = new ObjectMapper();
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = json.createObjectNode();
            try {
                JsonNode asked = json.readTree(line);
                var assignor = new GovernedAssignor();
                Map<String, String> properties = new HashMap<>();
                asked.path("properties").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
                assignor.configure(properties);
                var group = new Group(asked);
                long at = System.nanoTime();
                var given = assignor.assign(group, group);
                answer.put("us", (System.nanoTime() - at) / 1000);
                ObjectNode members = answer.putObject("assignment");
                new TreeMap<>(given.members()).forEach((id, share) -> {
                    ObjectNode mine = members.putObject(id);
                    share.partitions().forEach((topic, ps) -> new TreeSet<>(ps).forEach(mine.withArray(topic.toString())::add));
                });
            } catch (Throwable wrong) {
                answer = json.createObjectNode().put("error", String.valueOf(wrong));
            }
            out.println(json.writeValueAsString(answer));
        }
        out.flush();
    }

    static final Map<String, String> IDS = new HashMap<>();

    record Member(Optional<String> rackId, Optional<String> instanceId, Set<Uuid> subscribedTopicIds,
        Map<Uuid, Set<Integer>> partitions) implements MemberSubscription, MemberAssignment { }

    static class Group implements GroupSpec, SubscribedTopicDescriber {
        final Map<String, Member> members = new HashMap<>();
        final Map<Uuid, Integer> counts = new HashMap<>();

        Group(JsonNode asked) {
            asked.path("partitions").fields().forEachRemaining(e -> counts.put(Uuid.fromString(e.getKey()), e.getValue().asInt()));
            asked.get("members").fields().forEachRemaining(e -> {
                JsonNode one = e.getValue();
                Set<Uuid> topics = new HashSet<>();
                one.path("topics").forEach(t -> topics.add(Uuid.fromString(t.asText())));
                Map<Uuid, Set<Integer>> previous = new HashMap<>();
                one.path("previous").fields().forEachRemaining(t -> {
                    Set<Integer> ps = new HashSet<>();
                    t.getValue().forEach(p -> ps.add(p.asInt()));
                    previous.put(Uuid.fromString(t.getKey()), ps);
                });
                // As the coordinator does: one String for a member's id as long as it is in its group.
                String id = IDS.computeIfAbsent(asked.path("group").asText() + " " + e.getKey(), same -> new String(e.getKey()));
                members.put(id, new Member(Optional.ofNullable(one.path("rack").asText(null)),
                    Optional.ofNullable(one.path("instance").asText(null)), topics, java.util.Collections.unmodifiableMap(previous)));
            });
        }

        @Override public Collection<String> memberIds() { return members.keySet(); }
        @Override public SubscriptionType subscriptionType() {
            return new HashSet<>(members.values().stream().map(Member::subscribedTopicIds).toList()).size() < 2
                ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        }
        @Override public boolean isPartitionAssigned(Uuid topic, int partition) {
            return members.values().stream().anyMatch(m -> m.partitions().getOrDefault(topic, Set.of()).contains(partition));
        }
        @Override public boolean isPartitionAssignable(Uuid topic, int partition) { return true; }
        @Override public MemberSubscription memberSubscription(String id) { return members.get(id); }
        @Override public MemberAssignment memberAssignment(String id) { return members.get(id); }
        @Override public int numPartitions(Uuid topic) { return counts.getOrDefault(topic, -1); }
        @Override public Set<String> racksForPartition(Uuid topic, int partition) { return Set.of(); }
    }
}
