package apportion;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.io.BufferedReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;

/**
 * A KafkaConsumer on a leash: the first line of input says what it is, every further line is a command, and what
 * happens to it is told as one JSON event a line.
 *
 * <p>First line: {@code {"properties": {...}, "topics": [...], "read": true}}; for topics may stand
 * {@code "pattern": "..."} or {@code "assign": {"t": [0]}}; {@code "commit_ms"} and {@code "work_ms"} are explained at {@link Pending};
 * {@code "each_us"} are microseconds that it sleeps for each record before it polls again.
 * Commands: {@code commit} (optionally with {@code offsets} and {@code metadata}, or inside a transaction that is
 * committed or aborted), {@code subscribe}, {@code read}, {@code close}, {@code exit-hard}.
 */
public final class Member implements ConsumerRebalanceListener {
    private final Properties properties = new Properties();
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final BlockingQueue<JsonNode> commands = new LinkedBlockingQueue<>();
    private final Pending pending;
    private final long eachUs;
    private KafkaProducer<byte[], byte[]> producer;
    private boolean read;
    private boolean open = true;
    private boolean polls;
    private String told = "";

    public static void main(String[] args) throws Exception {
        BufferedReader input = Lines.input();
        Member member = new Member(Lines.JSON.readTree(input.readLine()));
        Thread reader = new Thread(() -> member.listen(input), "commands");
        reader.setDaemon(true);
        reader.start();
        member.live();
    }

    private Member(JsonNode spec) {
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        spec.get("properties").fields().forEachRemaining(p -> properties.put(p.getKey(), p.getValue().asText()));
        read = spec.path("read").asBoolean(true);
        consumer = new KafkaConsumer<>(properties);
        eachUs = spec.path("each_us").asLong(0);
        pending = new Pending(consumer, spec.path("commit_ms").asLong(0), spec.path("work_ms").asLong(0));
        if (spec.has("assign")) {
            consumer.assign(Assignors.partitions(spec.get("assign")));
            polls = !consumer.assignment().isEmpty();
        } else subscribe(spec);
    }

    private void subscribe(JsonNode spec) {
        polls = spec.hasNonNull("pattern") || !spec.path("topics").isEmpty();
        if (spec.hasNonNull("pattern")) {
            String pattern = spec.get("pattern").asText();
            if ("consumer".equals(properties.get("group.protocol")))
                consumer.subscribe(new SubscriptionPattern(pattern), this);
            else consumer.subscribe(Pattern.compile(pattern), this);
            return;
        }
        List<String> topics = new ArrayList<>();
        spec.get("topics").forEach(topic -> topics.add(topic.asText()));
        consumer.subscribe(topics, this);
    }

    /** Takes commands until the input closes: then the parent is gone, and so are we. */
    private void listen(BufferedReader input) {
        try {
            for (String line; (line = input.readLine()) != null; ) {
                JsonNode command = Lines.JSON.readTree(line);
                if (command.get("do").asText().equals("exit-hard")) Runtime.getRuntime().halt(9);
                commands.add(command);
            }
        } catch (java.io.IOException gone) {
            // as good as closed
        }
        Runtime.getRuntime().halt(9);
    }

    private void live() throws Exception {
        while (open) {
            for (JsonNode command; open && (command = commands.poll()) != null; ) obey(command);
            if (!open) break;
            if (!polls) {
                Thread.sleep(50);
                continue;
            }
            try {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (!records.isEmpty()) tellRecords(records);
                Thread.sleep(records.count() * eachUs / 1000);
                pending.read(records);
                pending.commitIfDue();
            } catch (WakeupException woken) {
                // nothing wakes us but ourselves
            } catch (Exception wrong) {
                tell("error").put("error", wrong.toString());
                say();
            }
            tellAssignment();
        }
    }

    private void obey(JsonNode command) {
        String what = command.get("do").asText();
        String wrong = null;
        try {
            switch (what) {
                case "commit" -> commit(command);
                case "subscribe" -> subscribe(command);
                case "read" -> setRead(command.path("read").asBoolean(true));
                case "close" -> close();
                default -> throw new IllegalArgumentException("unknown command " + what);
            }
        } catch (Exception trouble) {
            wrong = trouble.toString();
        }
        tell("done").put("do", what).put("error", wrong);
        say();
    }

    private void commit(JsonNode command) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        String metadata = command.path("metadata").asText("");
        Optional<Integer> epoch =
            command.hasNonNull("epoch") ? Optional.of(command.get("epoch").asInt()) : Optional.empty();
        if (!command.hasNonNull("offsets"))
            for (TopicPartition tp : consumer.assignment())
                offsets.put(tp, new OffsetAndMetadata(consumer.position(tp), metadata));
        command.path("offsets").fields().forEachRemaining(topic -> topic.getValue().fields().forEachRemaining(p -> {
            TopicPartition tp = new TopicPartition(topic.getKey(), Integer.parseInt(p.getKey()));
            offsets.put(tp, new OffsetAndMetadata(p.getValue().asLong(), epoch, metadata));
        }));
        if (command.hasNonNull("transaction")) inTransaction(offsets, command.get("transaction").asText());
        else consumer.commitSync(offsets);
    }

    private void inTransaction(Map<TopicPartition, OffsetAndMetadata> offsets, String end) {
        if (producer == null) {
            Properties of = new Properties();
            of.put("bootstrap.servers", properties.get("bootstrap.servers"));
            of.put("transactional.id", properties.get("group.id") + "-" + consumer.groupMetadata().memberId());
            of.put("key.serializer", ByteArraySerializer.class.getName());
            of.put("value.serializer", ByteArraySerializer.class.getName());
            producer = new KafkaProducer<>(of);
            producer.initTransactions();
        }
        producer.beginTransaction();
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        if (end.equals("abort")) producer.abortTransaction();
        else producer.commitTransaction();
    }

    private void setRead(boolean wanted) {
        read = wanted;
        if (read) consumer.resume(consumer.assignment());
        else consumer.pause(consumer.assignment());
    }

    private void close() {
        try {
            pending.close();
        } catch (Exception refused) {
            // the group has gone on without us: somebody reads it again
        }
        open = false;
        consumer.close();
        if (producer != null) producer.close();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        if (!read) consumer.pause(partitions);
        Assignors.put(tell("assigned").putObject("partitions"), partitions);
        Assignors.put(event.putObject("holds"), consumer.assignment());
        say();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        pending.handOver(partitions);
        tellPartitions("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        pending.forget(partitions);
        tellPartitions("lost", partitions);
    }

    private ObjectNode event;

    /** A new event that says who and in which generation. */
    private ObjectNode tell(String what) {
        event = Lines.JSON.createObjectNode().put("event", what);
        if (!open) return event;
        ConsumerGroupMetadata me = consumer.groupMetadata();
        event.put("generation", me.generationId()).put("member", me.memberId());
        event.put("instance", me.groupInstanceId().orElse(null));
        return event;
    }

    private void say() {
        event.put("at", System.currentTimeMillis() / 1000.0);
        Lines.say(event);
    }

    private void tellPartitions(String what, Collection<TopicPartition> partitions) {
        Assignors.put(tell(what).putObject("partitions"), partitions);
        say();
    }

    /** Says the whole assignment whenever it, the generation or the member id changed. */
    private void tellAssignment() {
        Assignors.put(tell("assignment").putObject("partitions"), consumer.assignment());
        String now = event.toString();
        if (!now.equals(told)) say();
        told = now;
    }

    private void tellRecords(ConsumerRecords<byte[], byte[]> records) {
        ObjectNode told = tell("records").put("count", records.count());
        ObjectNode firsts = told.putObject("firsts");
        ObjectNode positions = told.putObject("positions");
        for (TopicPartition tp : records.partitions()) {
            String partition = String.valueOf(tp.partition());
            firsts.withObject("/" + tp.topic()).put(partition, records.records(tp).get(0).offset());
            positions.withObject("/" + tp.topic()).put(partition, consumer.position(tp));
        }
        say();
    }
}
