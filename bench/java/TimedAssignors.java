import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import io.apportion.broker.GovernedAssignor;

/** Two assignors under other hands: each call's time on the coordinator's thread goes to the broker's log. */
public class TimedAssignors {
    public static class Governed extends Timed {
        public Governed() { super(new GovernedAssignor()); }
    }

    public static class Uniform extends Timed {
        public Uniform() { super(new UniformAssignor()); }
    }

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    abstract static class Timed implements ConsumerGroupPartitionAssignor, Configurable {
        private final ConsumerGroupPartitionAssignor timed;

        Timed(ConsumerGroupPartitionAssignor timed) { this.timed = timed; }

        @Override public void configure(Map<String, ?> properties) {
            if (timed instanceof Configurable taking) taking.configure(properties);
        }

        @Override public String name() {
            return timed.name().equals(GovernedAssignor.NAME) ? GovernedAssignor.NAME : "timed-" + timed.name();
        }

        @Override public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) {
            long clock = System.nanoTime(), cpu = THREADS.getCurrentThreadCpuTime();
            GroupAssignment given = timed.assign(group, topics);
            cpu = THREADS.getCurrentThreadCpuTime() - cpu;
            clock = System.nanoTime() - clock;
            System.out.printf("TIMED %s %d %d %d%n", name(), group.memberIds().size(), cpu / 1000, clock / 1000);
            return given;
        }
    }
}
