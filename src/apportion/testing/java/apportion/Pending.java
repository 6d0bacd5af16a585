package apportion;

import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;

/**
 * What was read and not yet committed, for an application that commits every so often and when it closes; of what is
 * revoked it commits nothing, since its work on that was not finished.
 */
final class Pending {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final long everyMs;
    private final Map<TopicPartition, OffsetAndMetadata> read = new HashMap<>();
    private long next;

    /** everyMs: 0 never. */
    Pending(KafkaConsumer<byte[], byte[]> consumer, long everyMs) {
        this.consumer = consumer;
        this.everyMs = everyMs;
    }

    void read(ConsumerRecords<byte[], byte[]> records) {
        for (TopicPartition tp : records.partitions()) {
            var of = records.records(tp);
            read.put(tp, new OffsetAndMetadata(of.get(of.size() - 1).offset() + 1));
        }
    }

    void forget(Collection<TopicPartition> partitions) {
        read.keySet().removeAll(partitions);
    }

    void commitIfDue() {
        if (System.currentTimeMillis() < next) return;
        commit();
    }

    /** Throws what the client throws; what it could not commit stays due, and is tried again after the next poll. */
    void commit() {
        if (everyMs == 0 || read.isEmpty()) return;
        consumer.commitSync(new HashMap<>(read), Duration.ofSeconds(5));
        read.clear();
        next = System.currentTimeMillis() + everyMs;
    }
}
