import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

import java.util.Map;
import java.util.Properties;

/** Counts words with Kafka Streams, as bench/exactly_once.py does: each new count goes to a topic with its record's time. */
public class Words {
  public static void main(String[] args) {
    Properties properties = new Properties();
    properties.putAll(Map.of(
        "bootstrap.servers", args[0], "application.id", args[1], "state.dir", args[2], "processing.guarantee", args[3],
        "commit.interval.ms", args[4], "num.standby.replicas", args[8], "num.stream.threads", 1));
    properties.putAll(Map.of(
        "consumer.session.timeout.ms", args[5], "consumer.heartbeat.interval.ms", 500,
        "consumer.auto.offset.reset", "earliest", "topology.optimization", "none"));
    String words = args[6];
    String counts = args[7];
    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(Stores.keyValueStoreBuilder(
        Stores.persistentKeyValueStore("counts"), Serdes.String(), Serdes.Integer()).withCachingDisabled());
    builder.stream(words, Consumed.with(Serdes.String(), Serdes.String()))
        .processValues(Words::counter, "counts")
        .to(counts, Produced.with(Serdes.String(), Serdes.String()));
    KafkaStreams streams = new KafkaStreams(builder.build(), properties);
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  private static FixedKeyProcessor<String, String, String> counter() {
    return new FixedKeyProcessor<>() {
      private FixedKeyProcessorContext<String, String> context;
      private KeyValueStore<String, Integer> store;

      @Override
      public void init(FixedKeyProcessorContext<String, String> context) {
        this.context = context;
        store = context.getStateStore("counts");
      }

      @Override
      public void process(FixedKeyRecord<String, String> record) {
        Integer before = store.get(record.key());
        int count = before == null ? 1 : before + 1;
        store.put(record.key(), count);
        context.forward(record.withValue(count + " " + record.timestamp()));
      }
    };
  }
}
