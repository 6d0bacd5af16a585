import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * One process of a Kafka Streams application until its input closes: {@code {"properties": {...}}} on the first line;
 * says its state and its threads' tasks whenever they change. All stores are in memory.
 */
public final class StreamsApp {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        JsonNode spec = JSON.readTree(input.readLine());
        Properties properties = new Properties();
        spec.get("properties").properties().forEach(p -> properties.put(p.getKey(), p.getValue().asText()));
        try (var streams = new KafkaStreams(topology(), properties)) {
            streams.start();
            String before = "";
            while (!input.ready()) {
                Thread.sleep(100);
                String now = standing(streams).toString();
                if (!now.equals(before)) System.out.println(now);
                System.out.flush();
                before = now;
            }
            streams.close(Duration.ofSeconds(10));
        }
        System.exit(0);
    }

    /** Three sub-topologies: a join with two stores, a count behind a repartition topic, and one without state. */
    static Topology topology() {
        var builder = new StreamsBuilder();
        var text = Consumed.with(Serdes.String(), Serdes.String());
        var users = builder.table("users", text,
            Materialized.<String, String>as(Stores.inMemoryKeyValueStore("users-store")).withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
        builder.stream("clicks", text)
            .join(users, (click, user) -> user)
            .groupBy((key, user) -> user, Grouped.with("by-user", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("count-store")).withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().mapValues(String::valueOf).to("counts", Produced.with(Serdes.String(), Serdes.String()));
        builder.stream("views", text).mapValues(value -> value.toUpperCase()).to("shouted", Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    static ObjectNode standing(KafkaStreams streams) {
        ObjectNode out = JSON.createObjectNode().put("state", streams.state().toString());
        var threads = out.putArray("threads");
        streams.metadataForLocalThreads().stream().map(thread -> thread(thread)).sorted((a, b) -> a.toString().compareTo(b.toString()))
            .forEach(threads::add);
        return out;
    }

    static ObjectNode thread(ThreadMetadata thread) {
        ObjectNode out = JSON.createObjectNode();
        out.put("client", thread.consumerClientId());
        names(out, "active", thread.activeTasks());
        names(out, "standby", thread.standbyTasks());
        return out;
    }

    static void names(ObjectNode out, String role, Set<TaskMetadata> tasks) {
        var names = out.putArray(role);
        tasks.stream().map(task -> task.taskId().toString()).sorted().forEach(names::add);
    }
}
