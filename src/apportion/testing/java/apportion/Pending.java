package apportion;

import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;

/**
 * What was read and not yet committed, for an application that works on a record for a while after it has read it, and
 * commits what is done every so often, when partitions are revoked, and when it closes.
 */
final class Pending {
    private record Read(long at, long next) {}

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final long everyMs;
    private final long workMs;
    private final Map<TopicPartition, ArrayDeque<Read>> read = new HashMap<>();
    private long next;

    /** everyMs: 0 never. */
    Pending(KafkaConsumer<byte[], byte[]> consumer, long everyMs, long workMs) {
        this.consumer = consumer;
        this.everyMs = everyMs;
        this.workMs = workMs;
    }

    void read(ConsumerRecords<byte[], byte[]> records) {
        long now = System.currentTimeMillis();
        for (TopicPartition tp : records.partitions()) {
            var of = records.records(tp);
            read.computeIfAbsent(tp, new_ -> new ArrayDeque<>())
                .add(new Read(now, of.get(of.size() - 1).offset() + 1));
        }
    }

    void forget(Collection<TopicPartition> partitions) {
        read.keySet().removeAll(partitions);
    }

    void commitIfDue() {
        if (System.currentTimeMillis() < next) return;
        commit(read.keySet(), workMs);
        next = System.currentTimeMillis() + everyMs;
    }

    /** What is done of these; what is not, the next owner reads again. */
    void handOver(Collection<TopicPartition> partitions) {
        try {
            commit(partitions, workMs);
        } catch (KafkaException refused) {
            // the next owner reads again what was done, too
        }
        forget(partitions);
    }

    /** All, since the work is finished first. */
    void close() {
        commit(read.keySet(), 0);
    }

    /** Throws what the client throws; what it could not commit stays due, and is tried again after the next poll. */
    private void commit(Collection<TopicPartition> partitions, long workMs) {
        if (everyMs == 0) return;
        long until = System.currentTimeMillis() - workMs;
        Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
        for (TopicPartition tp : partitions)
            for (Read one : read.getOrDefault(tp, new ArrayDeque<>()))
                if (one.at() <= until) done.put(tp, new OffsetAndMetadata(one.next()));
        if (done.isEmpty()) return;
        consumer.commitSync(done, Duration.ofSeconds(5));
        done.forEach((tp, at) -> read.get(tp).removeIf(one -> one.next() <= at.offset()));
    }
}
