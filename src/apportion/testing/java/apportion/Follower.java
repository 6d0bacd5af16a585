package apportion;

import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;

/** A Java member's way into a cooperative group of ours: Kafka's own assignor under our strategy's name. */
public final class Follower extends CooperativeStickyAssignor {
    @Override
    public String name() {
        return "cooperative-lag-aware";
    }
}
