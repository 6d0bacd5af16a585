package io.apportion.broker;

import java.security.MessageDigest;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;

/**
 * The numbers by which plans know members, each computed once: a thousand hashes a call are 60 ms before they are compiled.
 *
 * <p>The members that were seen longest ago are forgotten first.
 */
final class Digests {
    private final LinkedHashMap<String, Digest> known;

    private record Digest(int salt, String instance, int digest, int ofId) {
        /** Clients choose their member ids: one of another group may have the same. */
        boolean isOf(int otherSalt, String otherInstance) {
            return salt == otherSalt && Objects.equals(instance, otherInstance);
        }
    }

    Digests(int most) {
        known = new LinkedHashMap<>(16, 0.75f, true) {
            @Override protected boolean removeEldestEntry(Map.Entry<String, Digest> eldest) {
                return size() > most;
            }
        };
    }

    /** (members,) each one's digest under a plan's salt: of its instance id where it is static. */
    int[] of(int salt, List<String> members, GroupSpec group) {
        return all(salt, members, group).mapToInt(Digest::digest).toArray();
    }

    /** (members,) the digests of their member ids, of static ones too. */
    int[] ofIds(int salt, List<String> members, GroupSpec group) {
        return all(salt, members, group).mapToInt(Digest::ofId).toArray();
    }

    private synchronized Stream<Digest> all(int salt, List<String> members, GroupSpec group) {
        MessageDigest sha256 = PlanText.sha256();
        Digest[] digests = new Digest[members.size()];
        for (int m = 0; m < digests.length; m++) {
            String member = members.get(m);
            String instance = group.memberSubscription(member).instanceId().orElse(null);
            Digest digest = known.get(member);
            if (digest == null || !digest.isOf(salt, instance)) {
                int ofId = PlanText.digest(sha256, salt, null, member);
                digest = new Digest(salt, instance, instance == null ? ofId : PlanText.digest(sha256, salt, instance, member), ofId);
                known.put(member, digest);
            }
            digests[m] = digest;
        }
        return Arrays.stream(digests);
    }
}
