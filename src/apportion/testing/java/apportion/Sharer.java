package apportion;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.io.BufferedReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;

/** A member of a share group (KIP-932) that reads until its input closes; it says so once its assignment has come. */
public final class Sharer {
    public static void main(String[] args) throws Exception {
        BufferedReader input = Lines.input();
        JsonNode spec = Lines.JSON.readTree(input.readLine());
        Properties properties = new Properties();
        spec.get("properties").fields().forEachRemaining(p -> properties.put(p.getKey(), p.getValue().asText()));
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaShareConsumer<>(properties, bytes, bytes)) {
            consumer.subscribe(List.of(spec.get("topic").asText()));
            for (int polls = 0; !input.ready(); polls++) {
                consumer.poll(Duration.ofMillis(200));
                // A share consumer is not told of its assignment; it comes with the second heartbeat, after 5 s.
                if (polls == 50) Lines.say(Lines.JSON.createObjectNode().put("event", "settled"));
            }
        }
        System.exit(0);
    }
}
