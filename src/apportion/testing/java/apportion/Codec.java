package apportion;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Kafka's own serializers, hex in and JSON out or the other way:
 * {@code {"do": "decode"|"encode", "what": "subscription"|"assignment"|"sticky"|"record", ...}} a line.
 */
public final class Codec {
    private static final HexFormat HEX = HexFormat.of();
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    public static void main(String[] args) throws Exception {
        Lines.answerAll(asked -> asked.get("do").asText().equals("decode") ? decode(asked) : encode(asked));
    }

    private static JsonNode decode(JsonNode asked) throws Exception {
        ObjectNode answer = Lines.JSON.createObjectNode();
        switch (asked.get("what").asText()) {
            case "subscription" -> {
                short version = ConsumerProtocol.deserializeVersion(bytes(asked.get("hex")));
                short read = (short) Math.min(version, ConsumerProtocolSubscription.HIGHEST_SUPPORTED_VERSION);
                answer.put("version", version).set("json", ConsumerProtocolSubscriptionJsonConverter.write(
                    ConsumerProtocol.deserializeConsumerProtocolSubscription(bytes(asked.get("hex"))), read));
            }
            case "assignment" -> {
                short version = ConsumerProtocol.deserializeVersion(bytes(asked.get("hex")));
                short read = (short) Math.min(version, ConsumerProtocolAssignment.HIGHEST_SUPPORTED_VERSION);
                answer.put("version", version).set("json", ConsumerProtocolAssignmentJsonConverter.write(
                    ConsumerProtocol.deserializeConsumerProtocolAssignment(bytes(asked.get("hex"))), read));
            }
            case "sticky" -> Sticky.read(answer, bytes(asked.get("hex")));
            case "record" -> decodeRecord(answer, bytes(asked.get("key")), bytes(asked.get("value")));
            default -> throw new IllegalArgumentException("what: " + asked.get("what"));
        }
        return answer;
    }

    private static void decodeRecord(ObjectNode answer, ByteBuffer key, ByteBuffer value) {
        CoordinatorRecord record = SERDE.deserialize(key, value);
        answer.put("type", record.key().apiKey());
        answer.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
        ApiMessageAndVersion body = record.value();
        if (body == null) {
            answer.putNull("version").putNull("value");
            return;
        }
        answer.put("version", body.version());
        answer.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(body.message(), body.version()));
    }

    private static JsonNode encode(JsonNode asked) throws Exception {
        ObjectNode answer = Lines.JSON.createObjectNode();
        short version = (short) asked.path("version").asInt();
        JsonNode json = asked.get("json");
        switch (asked.get("what").asText()) {
            case "subscription" ->
                answer.put("hex", hex(version, ConsumerProtocolSubscriptionJsonConverter.read(json, version)));
            case "assignment" ->
                answer.put("hex", hex(version, ConsumerProtocolAssignmentJsonConverter.read(json, version)));
            case "sticky" -> answer.put("hex", HEX.formatHex(Sticky.write(json, version)));
            case "record" -> {
                short type = (short) asked.get("type").asInt();
                ApiMessage key = CoordinatorRecordJsonConverters.readRecordKeyFromJson(asked.get("key"), type);
                answer.put("key", HEX.formatHex(MessageUtil.toCoordinatorTypePrefixedBytes(key)));
                if (!asked.hasNonNull("value")) answer.putNull("value");
                else answer.put("value", hex(version,
                    CoordinatorRecordJsonConverters.readRecordValueFromJson(asked.get("value"), type, version)));
            }
            default -> throw new IllegalArgumentException("what: " + asked.get("what"));
        }
        return answer;
    }

    private static String hex(short version, Message message) {
        return HEX.formatHex(MessageUtil.toVersionPrefixedBytes(version, message));
    }

    private static ByteBuffer bytes(JsonNode hex) {
        return hex == null || hex.isNull() ? null : ByteBuffer.wrap(HEX.parseHex(hex.asText()));
    }

    /** What sticky's members remember: {@code {"generation": 5, "partitions": {"clicks": [0]}}}. */
    private static final class Sticky extends StickyAssignor {
        static void read(ObjectNode answer, ByteBuffer userData) {
            var remembered = new Sticky().memberData(new Subscription(List.of(), userData));
            ObjectNode json = answer.putObject("json");
            json.put("generation", remembered.generation.orElse(-1));
            Assignors.put(json.putObject("partitions"), remembered.partitions);
        }

        static byte[] write(JsonNode json, short version) throws Exception {
            List<TopicPartition> partitions = Assignors.partitions(json.get("partitions"));
            StickyAssignor remembers = new StickyAssignor();
            int generation = json.path("generation").asInt(-1);
            ConsumerGroupMetadata me = new ConsumerGroupMetadata("", generation, "", Optional.empty());
            remembers.onAssignment(new Assignment(partitions), me);
            ByteBuffer newest = remembers.subscriptionUserData(Set.of());
            return MessageUtil.byteBufferToArray(version == 0 ? withoutGeneration(newest) : newest);
        }

        /** Version 0 is version 1 without its last field. */
        private static ByteBuffer withoutGeneration(ByteBuffer newest) throws Exception {
            Field field = StickyAssignor.class.getDeclaredField("STICKY_ASSIGNOR_USER_DATA_V0");
            field.setAccessible(true);
            Schema schema = (Schema) field.get(null);
            Struct struct = (Struct) schema.read(newest);
            ByteBuffer old = ByteBuffer.allocate(schema.sizeOf(struct));
            schema.write(old, struct);
            old.flip();
            return old;
        }
    }
}
