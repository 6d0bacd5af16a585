import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Kafka's own readers and writers on lines of JSON: one question a line in, one answer a line out. */
public class Judge {
    static final ObjectMapper JSON = new ObjectMapper();
    static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

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

    static void answer(JsonNode q, ObjectNode a) throws Exception {
        switch (q.get("op").asText()) {
            case "read record" -> {
                CoordinatorRecord record = SERDE.deserialize(bytes(q.get("key")), bytes(q.get("value")));
                a.put("type", record.key().apiKey());
                a.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
                if (record.value() == null) return;
                short version = record.value().version();
                a.put("version", version);
                a.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(record.value().message(), version));
            }
            case "write record" -> {
                short type = (short) q.get("type").asInt();
                short version = (short) q.get("version").asInt();
                ApiMessage key = CoordinatorRecordJsonConverters.readRecordKeyFromJson(q.get("key"), type);
                ApiMessage value = CoordinatorRecordJsonConverters.readRecordValueFromJson(q.get("value"), type, version);
                CoordinatorRecord record = CoordinatorRecord.record(key, new ApiMessageAndVersion(value, version));
                a.put("key", hex(SERDE.serializeKey(record))).put("value", hex(SERDE.serializeValue(record)));
            }
            case "read subscription" -> a.set("value", ConsumerProtocolSubscriptionJsonConverter.write(
                ConsumerProtocol.deserializeConsumerProtocolSubscription(bytes(q.get("raw"))), (short) 3));
            case "read assignment" -> a.set("value", ConsumerProtocolAssignmentJsonConverter.write(
                ConsumerProtocol.deserializeConsumerProtocolAssignment(bytes(q.get("raw"))), (short) 3));
            case "write subscription" -> {
                List<String> topics = new ArrayList<>();
                q.get("topics").forEach(topic -> topics.add(topic.asText()));
                Optional<String> rack = Optional.ofNullable(q.get("rack").textValue());
                var said = new Subscription(topics, bytes(q.get("user_data")), held(q.get("owned")), q.get("generation").asInt(), rack);
                a.put("raw", hex(ConsumerProtocol.serializeSubscription(said, (short) q.get("version").asInt()).array()));
            }
            case "write assignment" -> a.put("raw", hex(ConsumerProtocol.serializeAssignment(
                new Assignment(held(q.get("partitions")), bytes(q.get("user_data"))), (short) q.get("version").asInt()).array()));
            case "write sticky" -> {
                var assignor = new StickyAssignor();
                assignor.onAssignment(new Assignment(held(q.get("owned"))), generation(q.get("generation").asInt()));
                a.put("raw", hex(assignor.subscriptionUserData(new TreeSet<>()).array()));
            }
            case "write cooperative" -> {
                var assignor = new CooperativeStickyAssignor();
                assignor.onAssignment(new Assignment(List.of()), generation(q.get("generation").asInt()));
                a.put("raw", hex(assignor.subscriptionUserData(new TreeSet<>()).array()));
            }
            case "read sticky" -> memory(new StickyAssignor(), q, a);
            case "read cooperative" -> memory(new CooperativeStickyAssignor(), q, a);
            case "read text" -> a.put("value", new String(bytes(q.get("raw")).array(), StandardCharsets.UTF_8));
            default -> throw new IllegalArgumentException(q.toString());
        }
    }

    static void memory(AbstractStickyAssignor assignor, JsonNode q, ObjectNode a) throws Exception {
        Method read = assignor.getClass().getDeclaredMethod("memberData", Subscription.class);
        read.setAccessible(true);
        var data = (AbstractStickyAssignor.MemberData) read.invoke(assignor, new Subscription(List.of(), bytes(q.get("raw"))));
        var owned = a.putArray("owned");
        data.partitions.forEach(tp -> owned.addArray().add(tp.topic()).add(tp.partition()));
        a.put("generation", data.generation.orElse(-1));
    }

    static ConsumerGroupMetadata generation(int number) {
        return new ConsumerGroupMetadata("group", number, "member", Optional.empty());
    }

    static List<TopicPartition> held(JsonNode pairs) {
        List<TopicPartition> out = new ArrayList<>();
        pairs.forEach(pair -> out.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return out;
    }

    static ByteBuffer bytes(JsonNode hex) {
        return hex == null || hex.isNull() ? null : ByteBuffer.wrap(HexFormat.of().parseHex(hex.asText()));
    }

    static String hex(byte[] raw) {
        return raw == null ? null : HexFormat.of().formatHex(raw);
    }
}
