package io.apportion.broker;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.common.Uuid;

/**
 * A plan as text for a rack id: {@code apportion-plan:2:NUMBER:BODY} and, where it is signed, {@code :SIGNATURE}.
 *
 * <p>BODY is base64url of zlib's deflated bytes: varint promise, byte salt, 4 bytes of seconds since 1970 (for people), 8
 * bytes of the first part's carrier, varint part; varint M and M digests of 4 bytes; varint S static members, each a
 * varint number and the digest of its member id; varint R and R member numbers; varint T topics, each an id of 16 bytes,
 * varint N and N runs of (varint length, varint number of the owner + 1, 0 for none). SIGNATURE is base64url of
 * HMAC-SHA256 over all text before its colon. A digest is the head of SHA-256 over the salt and "i" + instance id, or
 * "m" + member id where there is none; a carrier's is that over "c" + member id.
 *
 * <p>Nothing that the text says is believed: what it costs to read is bounded by what it is long.
 */
final class PlanText {
    static final String MARK = "apportion-plan:";
    private static final String VERSION = "2";
    private static final int BODY_MAX = 4 << 20;
    private static final int PARTITIONS_MAX = 1_000_000;

    private final byte[] body;
    private int at;

    private PlanText(byte[] body) {
        this.body = body;
    }

    /**
     * Reads a rack id.
     *
     * @param key what plans must be signed with, or null where the carrier's instance id was enough
     * @throws Plan.Refused it is no plan, or not signed with this key
     */
    static Plan read(String rack, byte[] key) throws Plan.Refused {
        String[] fields = rack.split(":", 6);
        if (fields.length < 4 || fields.length > 5) throw new Plan.Refused("it has " + fields.length + " fields, 4 or 5 are needed");
        if (!fields[1].equals(VERSION)) throw new Plan.Refused("its version is not " + VERSION);
        if (key != null) {
            if (fields.length < 5) throw new Plan.Refused("it is not signed");
            byte[] signed = rack.substring(0, rack.length() - fields[4].length() - 1).getBytes(StandardCharsets.UTF_8);
            if (!MessageDigest.isEqual(hmac(key, signed), bytes(fields[4]))) throw new Plan.Refused("its signature is another key's");
        }
        if (fields[2].isEmpty() || fields[2].length() > 18 || !fields[2].chars().allMatch(c -> c >= '0' && c <= '9')) {
            throw new Plan.Refused("its number is none");
        }
        try {
            return new PlanText(inflated(bytes(fields[3]))).plan(Long.parseLong(fields[2]));
        } catch (IndexOutOfBoundsException torn) {
            throw new Plan.Refused("it ends too early");
        }
    }

    private Plan plan(long number) throws Plan.Refused {
        int promise = varint();
        int salt = body[at++] & 0xFF;
        int32();
        long carrier = int64();
        int part = varint();
        int count = bounded(varint(), 4);
        Map<Integer, Integer> members = new HashMap<>(count * 2);
        for (int member = 0; member < count; member++) {
            if (members.put(int32(), member) != null) throw new Plan.Refused("two of its members have one digest");
        }
        Set<Integer> ids = new HashSet<>(members.keySet());
        int[] digests = new int[count];
        members.forEach((digest, member) -> digests[member] = digest);
        for (int left = bounded(varint(), 5); left > 0; left--) {
            ids.remove(digests[below(varint(), count)]);
            ids.add(int32());
        }
        int[] rank = new int[bounded(varint(), 1)];
        for (int place = 0; place < rank.length; place++) rank[place] = below(varint(), count);
        int topics = bounded(varint(), 17);
        Map<Uuid, int[]> owners = new HashMap<>(topics * 2);
        int left = PARTITIONS_MAX;
        for (int topic = 0; topic < topics; topic++) {
            Uuid id = new Uuid(int64(), int64());
            int runs = bounded(varint(), 2);
            int[] lengths = new int[runs], numbers = new int[runs];
            int size = 0;
            for (int run = 0; run < runs; run++) {
                lengths[run] = varint();
                numbers[run] = below(varint(), count + 1) - 1;
                if (lengths[run] > left) throw new Plan.Refused("it has more than " + PARTITIONS_MAX + " partitions");
                left -= lengths[run];
                size += lengths[run];
            }
            int[] owner = new int[size];
            for (int run = 0, p = 0; run < runs; run++) {
                for (int end = p + lengths[run]; p < end; p++) owner[p] = numbers[run];
            }
            owners.put(id, owner);
        }
        if (at != body.length) throw new Plan.Refused("bytes are left behind its end");
        return new Plan(number, promise, salt, carrier, part, members, ids, rank, owners);
    }

    /** The number by which a plan knows a member. */
    static int digest(MessageDigest sha256, int salt, String instance, String member) {
        sha256.reset();
        sha256.update((byte) salt);
        byte[] head = sha256.digest((instance == null ? "m" + member : "i" + instance).getBytes(StandardCharsets.UTF_8));
        return (head[0] & 0xFF) << 24 | (head[1] & 0xFF) << 16 | (head[2] & 0xFF) << 8 | head[3] & 0xFF;
    }

    /** The number by which a plan knows the member that carries its first part. */
    static long carrier(String member) {
        return ByteBuffer.wrap(sha256().digest(("c" + member).getBytes(StandardCharsets.UTF_8))).getLong();
    }

    static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException never) {
            throw new IllegalStateException(never);  // every Java has it
        }
    }

    private static byte[] hmac(byte[] key, byte[] text) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac.doFinal(text);
        } catch (GeneralSecurityException never) {
            throw new IllegalStateException(never);
        }
    }

    private static byte[] bytes(String text) throws Plan.Refused {
        try {
            return Base64.getUrlDecoder().decode(text);
        } catch (IllegalArgumentException bad) {
            throw new Plan.Refused("it is not base64url");
        }
    }

    private static byte[] inflated(byte[] deflated) throws Plan.Refused {
        Inflater inflater = new Inflater();
        try {
            inflater.setInput(deflated);
            byte[] out = new byte[Math.min(BODY_MAX, Math.max(1024, deflated.length * 4))];
            int size = 0;
            while (!inflater.finished()) {
                int more = inflater.inflate(out, size, out.length - size);
                size += more;
                if (inflater.finished()) break;
                if (more == 0 && (inflater.needsInput() || inflater.needsDictionary())) throw new Plan.Refused("its bytes are torn");
                if (size == BODY_MAX) throw new Plan.Refused("it inflates to more than " + BODY_MAX + " bytes");
                if (size == out.length) out = Arrays.copyOf(out, Math.min(BODY_MAX, size * 2));
            }
            return Arrays.copyOf(out, size);
        } catch (DataFormatException bad) {
            throw new Plan.Refused("its bytes are not deflated");
        } finally {
            inflater.end();
        }
    }

    private int varint() throws Plan.Refused {
        long value = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            int next = body[at++];
            value |= (long) (next & 0x7F) << shift;
            if (next >= 0) {
                if (value > Integer.MAX_VALUE) break;
                return (int) value;
            }
        }
        throw new Plan.Refused("a number of it is too large");
    }

    /** A count of things of at least some bytes each, of which no more can be there than there are bytes. */
    private int bounded(int count, int bytesEach) throws Plan.Refused {
        if ((long) count * bytesEach > body.length - at) throw new Plan.Refused("it counts more than it has");
        return count;
    }

    private int below(int number, int bound) throws Plan.Refused {
        if (number >= bound) throw new Plan.Refused("it names member " + number + " of " + bound);
        return number;
    }

    private int int32() {
        return (body[at++] & 0xFF) << 24 | (body[at++] & 0xFF) << 16 | (body[at++] & 0xFF) << 8 | body[at++] & 0xFF;
    }

    private long int64() {
        return (long) int32() << 32 | int32() & 0xFFFFFFFFL;
    }
}
