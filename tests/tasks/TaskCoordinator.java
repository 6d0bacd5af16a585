import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.streams.StreamsGroup;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own group coordinator on streams groups, one a line: its group, its target builder, its task assignor.
 *
 * Members are put in the order of "joins"; "newcomer" joins with the request that asks for the target.
 */
public class TaskCoordinator {
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
        var group = new StreamsGroup(new LogContext(), new SnapshotRegistry(new LogContext()), "g");
        String newcomer = asked.path("newcomer").asText(null);
        for (JsonNode id : asked.get("joins")) {
            JsonNode member = asked.get("members").get(id.asText());
            if (!id.asText().equals(newcomer)) group.updateMember(member(id.asText(), member));
            var held = new TasksTuple(tasks(member.get("active")), tasks(member.get("standby")), Map.of());
            if (!held.isEmpty()) group.updateTargetAssignment(id.asText(), held);
        }
        var subtopologies = new TreeMap<String, ConfiguredSubtopology>();
        for (JsonNode one : asked.get("subtopologies")) {
            Map<String, ConfiguredInternalTopic> changelogs = one.get("stateful").asBoolean()
                ? Map.of("log", new ConfiguredInternalTopic("log", one.get("tasks").asInt(), Optional.empty(), Map.of()))
                : Map.of();
            subtopologies.put(one.get("name").asText(), new ConfiguredSubtopology(
                one.get("tasks").asInt(), Set.of("t"), Map.of(), Set.of(), changelogs));
        }
        var builder = new TargetAssignmentBuilder("g", 7, new StickyTaskAssignor(),
                Map.of("num.standby.replicas", asked.get("standbys").asText()))
            .withTime(Time.SYSTEM)
            .withMembers(group.members())
            .withStaticMembers(group.staticMembers())
            .withTargetAssignment(group.targetAssignment())
            .withTopology(new ConfiguredTopology(0, 1, Optional.of(subtopologies), Map.of(), Optional.empty()));
        if (newcomer != null) builder.addOrUpdateMember(newcomer, member(newcomer, asked.get("members").get(newcomer)));
        ObjectNode members = answer.putObject("assignment");
        builder.build().targetAssignment().forEach((id, given) -> {
            ObjectNode mine = members.putObject(id);
            put(mine.putObject("active"), given.activeTasks());
            put(mine.putObject("standby"), given.standbyTasks());
        });
    }

    static void put(ObjectNode into, Map<String, Set<Integer>> tasks) {
        new TreeMap<>(tasks).forEach((name, ids) -> new TreeSet<>(ids).forEach(into.withArray(name)::add));
    }

    static Map<String, Set<Integer>> tasks(JsonNode held) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        held.fields().forEachRemaining(entry -> {
            Set<Integer> ids = new HashSet<>();
            entry.getValue().forEach(p -> ids.add(p.asInt()));
            tasks.put(entry.getKey(), ids);
        });
        return tasks;
    }

    static StreamsGroupMember member(String id, JsonNode member) {
        return StreamsGroupMember.Builder.withDefaults(id)
            .setProcessId(member.get("process").asText())
            .setInstanceId(member.path("instance").asText(null))
            .setClientId("c").setClientHost("h").setRebalanceTimeoutMs(1000).setTopologyEpoch(0)
            .build();
    }
}
